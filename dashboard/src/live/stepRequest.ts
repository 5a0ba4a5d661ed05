/** A request that is repeated when the run has moved on, for what is not captured: rewind, trajectories. */
import { api, batchedApi, type Reader } from "@/api/client";
import type { StateOut } from "@/api/types";
import { useThrottledStore } from "@/lib/useThrottledStore";
import { type Latest, useLatestRequest } from "./latestRequest";
import { useRun } from "./store";

/** While a run is running, panels are updated on this interval: they are for reading, not for watching. */
export const RUNNING_MS = 1_000;

/** A part of the state; of a running run it is taken over once per interval. Undefined before the first message. */
export function useThrottledState<T>(select: (state: StateOut) => T, runningMs = RUNNING_MS): T | undefined {
  const isParked = useRun(({ state }) => state?.parked === true);
  const read = ({ state }: { state: StateOut | null }) => (state === null ? undefined : select(state));
  const value = useThrottledStore(useRun, read, isParked ? 0 : runningMs);
  // At once: nothing of the run before is shown when another is followed.
  const isKnown = useRun(({ state }) => state !== null);
  return isKnown ? value : undefined;
}

interface StepRequest<T> {
  /** It changes when there is something new to request; null while there is nothing. */
  moment: (state: StateOut) => string | null;
  /** Anything else on which the answer depends. */
  variant?: string;
  runningMs?: number;
  load: (runId: string, reader: Reader, signal: AbortSignal) => Promise<T>;
}

/** The newest answer: at once while the run is paused, on the interval and together with others while it is running. */
export function useStepRequest<T>(request: StepRequest<T>): Latest<T> {
  const { moment, variant = "", runningMs = RUNNING_MS, load } = request;
  const runId = useRun((run) => run.runId);
  const restarts = useRun((run) => run.restarts);
  const isParked = useRun(({ state }) => state?.parked === true);
  const now = useThrottledState(moment, runningMs) ?? null;
  const isWanted = useRun(({ state }) => state !== null && moment(state) !== null);
  const key =
    runId === null || now === null || !isWanted
      ? null
      : JSON.stringify([runId, restarts, isParked, variant, now]);
  const reader = isParked ? api : batchedApi;
  return useLatestRequest(key, (_, signal) => load(runId ?? "", reader, signal), {
    intervalMs: isParked ? 0 : runningMs,
  });
}
