/** How far back the run can go, fetched again when its step changes. */

import { runPath } from "@/api/client";
import type { RewindOut } from "@/api/types";
import { formatCount } from "@/lib/format";
import { showToast } from "@/lib/toasts";
import { useLatest } from "./captures";
import { runVerb } from "./commands";
import { useMoment, useRunId } from "./hooks";
import { useRun } from "./store";

/** While the run trains the slider is disabled, so its range may be older. */
const RUNNING_MS = 2_000;

/** Null while nothing is known, and for a run that cannot be taken back at all. */
export function useRewind(): RewindOut | null {
  const runId = useRunId();
  const generation = useRun((live) => live.generation);
  const {
    moment: position,
    intervalMs,
    ask,
  } = useMoment(
    (state) => (state.offers.includes("back") ? `${state.timeline} ${state.step}` : null),
    RUNNING_MS,
  );
  // Also when the run pauses or resumes at the same step.
  const key =
    runId === null || position === null ? null : [runId, generation, position, intervalMs].join(" ");
  const load = (_: string, signal: AbortSignal) =>
    ask.get<RewindOut>(runPath(runId ?? "", "/debug/rewind"), signal);
  return useLatest<RewindOut>(key, load, { intervalMs }).data;
}

/** Goes back and offers to go forward again, which repeats the same bits. */
export async function goBack(to: { n: number } | { step: number }): Promise<void> {
  const from = useRun.getState().state?.step ?? 0;
  const outcome = await runVerb("back", to);
  const now = useRun.getState().state?.step ?? 0;
  if (outcome?.status !== "done" || now >= from) return;
  const steps = from - now;
  showToast({
    kind: "done",
    title: `Went back ${formatCount(steps)} ${steps === 1 ? "step" : "steps"} to ${formatCount(now)}.`,
    text: "If you change something now, the run continues as a new timeline. The old one is kept.",
    action: { label: "Undo", keys: "Ctrl Z", run: () => void runVerb("step", { n: steps }) },
  });
}
