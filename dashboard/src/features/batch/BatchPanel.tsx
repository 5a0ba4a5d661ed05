/** Fetches the samples in view: at once while the run is paused, once a second while it trains. */

import { lazy, Suspense, useEffect, useRef, useState } from "react";
import type { BatchRange } from "@/api/tiles";
import { useAction } from "@/lib/actions";
import { CAPTURED_IN_VIEW, NOT_RECORDED, NOTHING_CAPTURED, PAUSE_FIRST } from "@/lib/messages";
import { preload } from "@/lib/preload";
import { useTheme } from "@/lib/theme";
import { useUrlChoice, useUrlState } from "@/lib/urlState";
import { useBatch } from "@/live/batch";
import { thinningText } from "@/live/captures";
import { hasEnded } from "@/live/commandAvailability";
import { runCommand } from "@/live/commands";
import { useCommandReason, useNoCommandsReason, useRunState, useVerb } from "@/live/hooks";
import {
  type DescribeSample,
  MAX_SHOWN,
  type Order,
  SHOWN_AT_FIRST,
  sampleAt,
  samplesOf,
  shownOrder,
} from "@/samples/samples";
import { Panel, StepAction } from "@/ui";
import { INFLUENCE } from "./influenceText";

// The code that draws comes while the first batch is captured.
const loadView = () => import("./BatchView");
preload(loadView);
const BatchView = lazy(loadView);

const FIRST: BatchRange = { first: 0, count: SHOWN_AT_FIRST };

interface BatchPanelProps {
  /** Ids to ring; the first one gets the cursor when the set is new. */
  pointedOut: ReadonlySet<number>;
  onFocusSample: (id: number | null) => void;
  onBreak: (sampleId: number) => void;
  /** Which samples moved which is known now, among the panels of this step. */
  onInfluence: () => void;
  /** Positions of the samples that stopped the run; the first one gets the cursor. */
  culprits: readonly number[];
  /** In place of the line that describes a sample; nothing for those that have no more to tell. */
  detail: DescribeSample;
  stale: string | null;
}

export function BatchPanel(props: BatchPanelProps) {
  const { pointedOut, onFocusSample, onBreak, onInfluence, culprits, detail, stale } = props;
  const influence = useInfluence(onInfluence);
  const [order, setOrder] = useUrlChoice<Order>("sort", ["loader", "loss"]);
  const [range, setRange] = useState<BatchRange>(FIRST);
  const total = useRef(SHOWN_AT_FIRST);
  // Only losses that are loaded can be compared.
  const sorted = { first: 0, count: Math.min(MAX_SHOWN, total.current) };
  const { data, error, running, thinning } = useBatch(order === "loss" ? sorted : range);
  const { batch, sheet } = data ?? { batch: null, sheet: null };
  total.current = batch?.count ?? total.current;
  const [cursor, setCursor] = useCursor();
  const breakReason = useNoCommandsReason();
  const theme = useTheme();

  // biome-ignore lint/correctness/useExhaustiveDependencies: only a new set moves the cursor, a new batch or order does not
  useEffect(() => {
    if (!batch || !pointedOut.size) return;
    const samples = samplesOf(batch);
    const first = shownOrder(samples, order).findIndex((batchIndex) =>
      pointedOut.has(sampleAt(samples, batchIndex)?.id ?? -1),
    );
    if (first >= 0) setCursor(first);
  }, [pointedOut, batch !== null]);

  const culprit = culprits[0];
  // biome-ignore lint/correctness/useExhaustiveDependencies: as above; the step tells one stop from the next
  useEffect(() => {
    if (!batch || culprit === undefined) return;
    setCursor(shownOrder(samplesOf(batch), order).indexOf(culprit));
  }, [culprit, batch?.step]);

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
    <Suspense fallback={<Panel title="Batch" className="h-full" />}>
      <BatchView
        {...{
          batch,
          sheet,
          thinning: thinning && thinningText(thinning),
          order,
          cursor,
          pointedOut,
          culprits,
          detail,
          onBreak,
          breakReason,
          influence,
          stale,
          running,
          theme,
        }}
        onOrder={reorder}
        onRange={setRange}
        onCursor={setCursor}
        onFocusSample={onFocusSample}
      />
    </Suspense>
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
