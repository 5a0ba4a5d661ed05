/** Joins the strip to the run's verbs. */
import { lazy, Suspense, useEffect, useState } from "react";
import { askStop } from "@/lib/dialogs";
import { hasEnded } from "@/live/commandAvailability";
import { useBreakpoints, useRunState, useStale, useVerb } from "@/live/hooks";
import { goBack, useRewind } from "@/live/rewind";
import { useStepInputs } from "@/live/stepInputs";
import { proposedTarget, targetError } from "./progress";
import { ProgressTrack, TransportView } from "./TransportView";

const EndedTransport = lazy(() => import("./EndedTransport"));
const RewindTrack = lazy(() => import("./RewindTrack"));

/** A pause that takes longer says what it waits for. */
const PATIENCE_MS = 2_000;

export function Transport() {
  const ended = useRunState(hasEnded);
  if (ended === undefined) return <p className="flex h-full items-center text-t3">Connecting to the run…</p>;
  return ended ? (
    <Suspense fallback={null}>
      <EndedTransport />
    </Suspense>
  ) : (
    <LiveTransport />
  );
}

/** Separate from the verbs, so that these are not redrawn with every step. */
function LiveProgress() {
  const state = useRunState();
  const stale = useStale();
  return state && <ProgressTrack state={state} stale={stale} />;
}

function LiveTransport() {
  const stale = useStale();
  const state = useRunState((run) => run.state);
  const waitingFor = useRunState((run) => run.waiting_for) ?? null;
  const pause = useVerb("pause");
  const resume = useVerb("resume");
  const step = useVerb("step");
  const back = useVerb("back");
  const rewind = useRewind();
  const breakpoints = useBreakpoints();
  const backReason = back.disabledReason ?? (rewind?.available === false ? rewind.reason : null);
  const runUntil = useVerb("run_until");
  const stop = useVerb("stop");
  const { n } = useStepInputs();
  const { target, error, shownError } = useTarget();
  const pausing = pause.busy || state === "pausing";
  const toggle = pausing || state === "running" || state === "stepping" ? "pause" : "resume";
  const stepping = step.busy ? "Stepping…" : null;
  const waited = useElapsed(pausing, PATIENCE_MS);
  return (
    <TransportView
      {...{ toggle, n, target }}
      targetError={shownError}
      waitingFor={waited ? waitingFor : null}
      onToggle={
        toggle === "pause"
          ? {
              onClick: () => void pause.run({}),
              busy: pausing ? "Pausing…" : null,
              disabledReason: pausing ? null : pause.disabledReason,
            }
          : {
              onClick: () => void resume.run({}),
              busy: resume.busy ? "Resuming…" : null,
              disabledReason: resume.disabledReason,
            }
      }
      onBack={{
        onClick: () => void goBack({ n: 1 }),
        busy: back.busy ? "Back…" : null,
        disabledReason: backReason,
      }}
      track={
        rewind?.available ? (
          <Suspense fallback={null}>
            <RewindTrack {...{ rewind, breakpoints, stale }} disabledReason={backReason} />
          </Suspense>
        ) : (
          <LiveProgress />
        )
      }
      onStep={{ onClick: () => void step.run({ n: 1 }), busy: null, disabledReason: step.disabledReason }}
      onSteps={{
        onClick: () => void step.run({ n }),
        busy: stepping && n > 1 ? "…" : null,
        disabledReason: step.disabledReason,
      }}
      onRunTo={{
        onClick: () => error === null && void runUntil.run({ step: target }),
        busy: null,
        disabledReason: runUntil.disabledReason ?? error,
      }}
      onStop={{ onClick: askStop, busy: stop.busy ? "Stopping…" : null, disabledReason: stop.disabledReason }}
      onN={(next) => useStepInputs.setState({ n: next })}
      onTarget={(next) => useStepInputs.setState({ runTo: next })}
    />
  );
}

/** The step to run to: what was typed until the run has passed it, then the next round step. */
function useTarget(): { target: number; error: string | null; shownError: string | null } {
  const { runTo } = useStepInputs();
  const isAhead = useRunState(({ step }) => runTo !== null && runTo > step);
  const [reachable, setReachable] = useState(false);
  useEffect(() => {
    if (runTo === null) setReachable(false);
    else if (isAhead) setReachable(true);
    // It was ahead and no longer is: the run got there, so there is nothing wrong to point at.
    else if (reachable) useStepInputs.setState({ runTo: null });
  }, [runTo, isAhead, reachable]);
  const target = useRunState(({ step, total_steps }) => runTo ?? proposedTarget(step, total_steps)) ?? 0;
  const error = useRunState(({ step, total_steps }) => targetError(target, step, total_steps)) ?? null;
  const underWay = useRunState(({ parked, run_until }) => !parked && run_until === target);
  return { target, error, shownError: underWay ? null : error };
}

/** Whether something has been so for longer than `afterMs`. */
function useElapsed(active: boolean, afterMs: number): boolean {
  const [elapsed, setElapsed] = useState(false);
  useEffect(() => {
    setElapsed(false);
    if (!active) return;
    const timer = setTimeout(() => setElapsed(true), afterMs);
    return () => clearTimeout(timer);
  }, [active, afterMs]);
  return elapsed;
}
