/** Fetches the batch: at once while the run is paused, once a second while it trains. */

import { useEffect, useState } from "react";
import { runPath } from "@/api/client";
import type { BatchOut } from "@/api/types";
import { useAction } from "@/lib/actions";
import { CAPTURED_IN_VIEW, NOT_RECORDED, NOTHING_CAPTURED, PAUSE_FIRST } from "@/lib/messages";
import { useTheme } from "@/lib/theme";
import { useUrlChoice, useUrlState } from "@/lib/urlState";
import { useLatest } from "@/live/captures";
import { hasEnded } from "@/live/commandAvailability";
import { runCommand } from "@/live/commands";
import {
  useCommandReason,
  useMoment,
  useNoCommandsReason,
  useRunId,
  useRunState,
  useVerb,
} from "@/live/hooks";
import { useRun } from "@/live/store";
import { Panel, StepAction } from "@/ui";
import { BatchView, INFLUENCE } from "./BatchView";
import { type Order, samplesOf, shownOrder } from "./samples";
import { decode } from "./tilePicture";

interface BatchPanelProps {
  /** Ids to ring; the first one gets the cursor when the set is new. */
  pointedOut: ReadonlySet<number>;
  onFocusSample: (id: number | null) => void;
  onBreak: (sampleId: number) => void;
  /** Which samples moved which is known now, among the panels of this step. */
  onInfluence: () => void;
  stale: string | null;
}

export function BatchPanel({ pointedOut, onFocusSample, onBreak, onInfluence, stale }: BatchPanelProps) {
  const influence = useInfluence(onInfluence);
  const { batch, picture, error, running } = useShownBatch();
  const [order, setOrder] = useUrlChoice<Order>("sort", ["loader", "loss"]);
  const [cursor, setCursor] = useCursor();
  const breakReason = useNoCommandsReason();
  const theme = useTheme();

  // biome-ignore lint/correctness/useExhaustiveDependencies: only a new set moves the cursor, a new batch or order does not
  useEffect(() => {
    if (!batch || !pointedOut.size) return;
    const samples = samplesOf(batch);
    const first = shownOrder(samples, order).findIndex((batchIndex) =>
      pointedOut.has(samples.all[batchIndex]?.id ?? -1),
    );
    if (first >= 0) setCursor(first);
  }, [pointedOut, batch !== null]);

  const reorder = (next: Order) => {
    // The same sample stays under the cursor wherever it goes.
    if (batch && cursor !== null) {
      const samples = samplesOf(batch);
      const batchIndex = shownOrder(samples, order)[cursor] ?? 0;
      setCursor(shownOrder(samples, next).indexOf(batchIndex));
    }
    setOrder(next);
  };
  useAction({
    id: "batch-order",
    title: order === "loader" ? "Batch by loss" : "Batch in loader order",
    group: "Panels",
    words: "sort samples",
    run: () => reorder(order === "loader" ? "loss" : "loader"),
  });

  if (batch === null) return <NoBatch error={error} />;
  return (
    <BatchView
      {...{
        batch,
        picture,
        order,
        cursor,
        pointedOut,
        onBreak,
        breakReason,
        influence,
        stale,
        running,
        theme,
      }}
      onOrder={reorder}
      onCursor={setCursor}
      onFocusSample={onFocusSample}
    />
  );
}

/** The command behind the button; null where the run does not offer it. */
function useInfluence(onKnown: () => void) {
  const [busy, setBusy] = useState(false);
  const offered = useRunState((state) => state.offers.includes("influence")) ?? false;
  const parked = useRunState((state) => state.parked) ?? false;
  const reason = useCommandReason("influence");
  const disabledReason = reason ?? (parked ? null : PAUSE_FIRST);
  const onAsk = async () => {
    setBusy(true);
    const done = await runCommand("influence", {}, "Influence");
    setBusy(false);
    if (done !== null) onKnown();
  };
  useAction({
    id: "influence",
    title: INFLUENCE,
    group: "Panels",
    words: "contribution loss kernel samples",
    disabledReason: busy ? "Computing…" : disabledReason,
    run: () => void onAsk(),
  });
  return offered ? { busy, disabledReason, onAsk: () => void onAsk() } : null;
}

/** Index of the focused sample, kept in the address. */
function useCursor(): [number | null, (cursor: number | null) => void] {
  const [text, setText] = useUrlState("sample", "");
  const cursor = /^\d{1,4}$/.test(text) ? Number(text) : null;
  return [cursor, (next) => setText(next === null ? "" : String(next))];
}

function useShownBatch() {
  const runId = useRunId();
  const generation = useRun((live) => live.generation);
  const { moment: step, intervalMs, ask } = useMoment((state) => (state.has_batch ? state.batch_step : null));
  const key = runId === null || step === null ? null : `${runId} ${generation} ${step}`;
  const load = async (_: string, signal: AbortSignal) =>
    decode(await ask.get<BatchOut>(runPath(runId ?? "", "/debug/batch"), signal));
  const { data, error } = useLatest(key, load, { intervalMs });
  return { batch: data?.batch ?? null, picture: data?.picture ?? null, error, running: intervalMs > 0 };
}

function NoBatch({ error }: { error: Error | null }) {
  const step = useVerb("step");
  const known = useRunState((state) => state.has_batch);
  const ended = useRunState(hasEnded) ?? false;
  if (error) {
    return (
      <Panel
        title="Batch"
        className="h-full"
        state={{ kind: "error", title: "Could not load the batch", text: error.message }}
      />
    );
  }
  if (known === undefined || known) return <Panel title="Batch" className="h-full" />;
  if (ended) {
    const text = NOT_RECORDED;
    return <Panel title="Batch" className="h-full" state={{ kind: "unavailable", text }} />;
  }
  const action = <StepAction verb={step} onStep={() => void step.run({ n: 1 })} />;
  return (
    <Panel
      title="Batch"
      className="h-full"
      state={{
        kind: "empty",
        title: NOTHING_CAPTURED,
        text: CAPTURED_IN_VIEW,
        action,
      }}
    />
  );
}
