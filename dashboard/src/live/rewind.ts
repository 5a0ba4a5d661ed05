/** How far back the run can go, fetched again when its step changes. */

import { runPath } from "@/api/client";
import type { RewindOut } from "@/api/types";
import { formatCount } from "@/lib/format";
import { showToast } from "@/lib/toasts";
import { runVerb } from "./commands";
import { useStepRequest } from "./stepRequest";
import { useRun } from "./store";

/** While the run trains the slider is disabled, so its range may be older. */
const RUNNING_MS = 2_000;

/** Null while nothing is known, and for a run that cannot go back at all. */
export function useRewind(): RewindOut | null {
  return useStepRequest({
    moment: ({ offers, timeline, step }) => (offers.includes("back") ? `${timeline} ${step}` : null),
    runningMs: RUNNING_MS,
    load: (runId, reader, signal) =>
      reader.get<"/runs/{run_id}/debug/rewind">(runPath(runId, "/debug/rewind"), signal),
  }).data;
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
