/** Joins the strip to the run's verbs. */
import { lazy, Suspense, useEffect, useState } from "react";
import { useBreakpoints, useRunState, useStale, useVerb } from "@/api/hooks";
import { goBack, useRewind } from "@/api/rewind";
import type { StateOut } from "@/api/types";
import { hasEnded } from "@/lib/allowed";
import { askStop } from "@/lib/dialogs";
import { useTransport } from "@/lib/transport";
import { proposedTarget, targetError } from "./progress";
import { EndedStrip, TransportView } from "./TransportView";

const RewindTrack = lazy(() => import("./RewindTrack"));

/** A pause that takes longer says what it waits for. */
const PATIENCE_MS = 2_000;

export function Transport() {
  const state = useRunState();
  const stale = useStale();
  if (state === null)
    return <p className="flex h-full items-center text-t3">Waiting for the run's first message.</p>;
  return hasEnded(state) ? (
    <EndedStrip state={state} stale={stale} />
  ) : (
    <LiveTransport state={state} stale={stale} />
  );
}

function LiveTransport({ state, stale }: { state: StateOut; stale: boolean }) {
  const pause = useVerb("pause");
  const resume = useVerb("resume");
  const step = useVerb("step");
  const back = useVerb("back");
  const rewind = useRewind();
  const breakpoints = useBreakpoints();
  const backReason = back.disabledReason ?? (rewind?.available === false ? rewind.reason : null);
  const runUntil = useVerb("run_until");
  const stop = useVerb("stop");
  const { n } = useTransport();
  const [target, setTarget] = useTarget(state.step, state.total_steps);
  const error = targetError(target, state.step, state.total_steps);
  const pausing = pause.busy || state.state === "pausing";
  const toggle = pausing || state.state === "running" || state.state === "stepping" ? "pause" : "resume";
  const stepping = step.busy ? "Stepping…" : null;
  const waited = useElapsed(pausing, PATIENCE_MS);
  return (
    <TransportView
      {...{ state, toggle, n, target, stale }}
      targetError={state.parked || target !== state.run_until ? error : null}
      waitingFor={waited ? state.waiting_for : null}
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
        ) : undefined
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
      onN={(next) => useTransport.setState({ n: next })}
      onTarget={setTarget}
    />
  );
}

/** The step to run to: what was typed until the run has passed it, then the next round step. */
function useTarget(step: number, total: number | null): [number, (target: number) => void] {
  const { runTo } = useTransport();
  const [reachable, setReachable] = useState(false);
  useEffect(() => {
    if (runTo === null) setReachable(false);
    else if (runTo > step) setReachable(true);
    // It was ahead and no longer is: the run got there, so there is nothing wrong to point at.
    else if (reachable) useTransport.setState({ runTo: null });
  }, [runTo, step, reachable]);
  return [runTo ?? proposedTarget(step, total), (target) => useTransport.setState({ runTo: target })];
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
