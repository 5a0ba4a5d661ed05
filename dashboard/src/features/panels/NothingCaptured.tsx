/** Shown when there is no step data: why, and what to do. */

import { CAPTURED_IN_VIEW, NOT_RECORDED, NOTHING_CAPTURED } from "@/lib/messages";
import { hasEnded } from "@/live/commandAvailability";
import { useRunState, useVerb } from "@/live/hooks";
import { useRun } from "@/live/store";
import { Panel, StepAction } from "@/ui";
import { pushesNothing } from "./useStepEntry";

export function NothingCaptured() {
  const step = useVerb("step");
  const ended = useRunState(hasEnded) ?? false;
  const watchedFrom = useRun((live) => live.watchedFrom);
  const silent = useRunState((state) => pushesNothing(watchedFrom, state)) ?? false;
  if (ended) {
    const text = NOT_RECORDED;
    return <Panel title="Step data" className="h-full" state={{ kind: "unavailable", text }} />;
  }
  if (silent) return <PushesNothing />;
  const action = <StepAction verb={step} onStep={() => void step.run({ n: 1 })} />;
  return (
    <Panel
      title="Step data"
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

/** Steps were taken while the page was open, and there is still no step data. */
function PushesNothing() {
  return (
    <Panel
      title="Step data"
      className="h-full"
      state={{
        kind: "empty",
        title: "No step data",
        text: (
          <>
            Add a hook with <code className="font-mono">run.show(…)</code>, or call{" "}
            <code className="font-mono">run.controller.capture_step_data(key, data)</code>.
          </>
        ),
      }}
    />
  );
}
