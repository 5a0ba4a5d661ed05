/** Fetches the batch: at once when the run stands, once a second while it goes on. */
import { useEffect, useState } from "react";
import { runPath } from "@/api/client";
import { runCommand } from "@/api/commands";
import {
  useCommandReason,
  useMoment,
  useNoCommandsReason,
  useRunId,
  useRunState,
  useVerb,
} from "@/api/hooks";
import type { BatchOut } from "@/api/types";
import { useAction } from "@/lib/actions";
import { hasEnded } from "@/lib/allowed";
import { useLive } from "@/lib/store";
import { useTheme } from "@/lib/theme";
import { useUrlChoice, useUrlState } from "@/lib/urlState";
import { useLatest } from "@/lib/useLatest";
import { Panel, StepAction } from "@/ui";
import { BatchView, INFLUENCE } from "./BatchView";
import { decode } from "./picture";
import { type Order, samplesOf, shownOrder } from "./samples";

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
    const first = shownOrder(samples, order).findIndex((place) =>
      pointedOut.has(samples.all[place]?.id ?? -1),
    );
    if (first >= 0) setCursor(first);
  }, [pointedOut, batch !== null]);

  const reorder = (next: Order) => {
    // The same sample stays under the cursor wherever it goes.
    if (batch && cursor !== null) {
      const samples = samplesOf(batch);
      const place = shownOrder(samples, order)[cursor] ?? 0;
      setCursor(shownOrder(samples, next).indexOf(place));
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
  const disabledReason = reason ?? (parked ? null : "Pause first");
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

/** Place of the focused sample, kept in the address. */
function useCursor(): [number | null, (cursor: number | null) => void] {
  const [text, setText] = useUrlState("sample", "");
  const cursor = /^\d{1,4}$/.test(text) ? Number(text) : null;
  return [cursor, (next) => setText(next === null ? "" : String(next))];
}

function useShownBatch() {
  const runId = useRunId();
  const generation = useLive((live) => live.generation);
  // While a run goes on, a request is what makes it capture its batch: every step is worth asking for.
  const {
    moment: step,
    beatMs,
    ask,
  } = useMoment((state) => {
    if (!state.parked && !hasEnded(state) && state.step > 0) return `${state.timeline} ${state.step}`;
    return state.has_batch ? state.batch_step : null;
  });
  const key = runId === null || step === null ? null : `${runId} ${generation} ${step}`;
  const load = async (_: string, signal: AbortSignal) =>
    decode(await ask.get<BatchOut>(runPath(runId ?? "", "/debug/batch?inline=1&count=512"), signal));
  const { data, error } = useLatest(key, load, { beatMs });
  return { batch: data?.batch ?? null, picture: data?.picture ?? null, error, running: beatMs > 0 };
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
        state={{ kind: "error", title: "The batch did not come", text: error.message }}
      />
    );
  }
  if (known === undefined || known) return <Panel title="Batch" className="h-full" />;
  if (ended) {
    const text = "This run ended before its batch was looked at.";
    return <Panel title="Batch" className="h-full" state={{ kind: "unavailable", text }} />;
  }
  const action = <StepAction verb={step} onStep={() => void step.run({ n: 1 })} />;
  return (
    <Panel
      title="Batch"
      className="h-full"
      state={{
        kind: "empty",
        title: "Nothing captured for this step",
        text: "Captures start while this page is open. Take one step to fill the panel.",
        action,
      }}
    />
  );
}
