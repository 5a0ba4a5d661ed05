/** How panels read the run: each hook re-renders only for what it answers. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { type ApiError, api, batchedApi, type Reader, runPath } from "@/api/client";
import type { BreakpointOut, CommandOut, RunDetail, RunListing, StateOut } from "@/api/types";
import { useThrottledStore } from "@/lib/useThrottledStore";
import {
  commandDisabledReason,
  disabledReason,
  type VerbName,
  verbDisabledReason,
} from "./commandAvailability";
import { type Outcome, runVerb, useBusy, type VerbPayload } from "./commands";
import { fillSeries } from "./fillSeries";
import type { Series } from "./series";
import { type Connection, series, useRun } from "./store";

/** A part of the run's state, or undefined before the first message. */
export function useRunState(): StateOut | null;
export function useRunState<T>(select: (state: StateOut) => T): T | undefined;
export function useRunState<T>(select?: (state: StateOut) => T): StateOut | T | null | undefined {
  return useRun(({ state }) => {
    if (select === undefined) return state;
    return state === null ? undefined : select(state);
  });
}

/** While a run trains, panels update at this interval: faster updates cannot be read. */
const RUNNING_MS = 1_000;

export interface Moment {
  /** Null before the first message. */
  moment: string | null;
  /** The interval of requests while the run trains; 0 while it is paused. */
  intervalMs: number;
  /** Sends the requests: batched while the run trains, at once while it is paused. */
  ask: Reader;
}

/** A part of the state that changes with every step, and how to fetch what belongs to it. */
export function useMoment(
  select: (state: StateOut) => string | number | null,
  runningMs = RUNNING_MS,
): Moment {
  const intervalMs = useRunState((state) => state.parked) ? 0 : runningMs;
  const read = ({ state }: { state: StateOut | null }) => (state === null ? null : select(state));
  const moment = useThrottledStore(useRun, read, intervalMs);
  // At once: nothing of the run before is shown when another is followed.
  const isThere = useRunState((state) => select(state) !== null) ?? false;
  const ask = intervalMs === 0 ? api : batchedApi;
  return { moment: isThere && moment !== null ? String(moment) : null, intervalMs, ask };
}

export const useRunId = (): string | null => useRun((live) => live.runId);
export const useConnection = (): Connection => useRun((live) => live.connection);
export const useBreakpoints = (): BreakpointOut[] => useRun((live) => live.breakpoints);
export const useCommands = (): CommandOut[] => useRun((live) => live.commands);

/** Whether the numbers on the page are too old to be shown at full strength. */
export function useStale(): boolean {
  return useRun(({ connection }) => ["stale", "reconnecting", "not responding"].includes(connection.status));
}

/** What the connection allows: a view-only link stays one while messages are late. */
function allowing({ status, canControl }: Connection): Connection["status"] {
  return status === "stale" && !canControl ? "view only" : status;
}

/** Why nothing can be commanded now; null when it can. */
export function useNoCommandsReason(): string | null {
  return useRun(({ state, connection }) => disabledReason(state, allowing(connection)));
}

/** Why a command of the registry cannot be given now; null when it can. */
export function useCommandReason(name: string): string | null {
  return useRun(({ state, connection }) => commandDisabledReason(name, state, allowing(connection)));
}

export interface VerbHandle<V extends VerbName> {
  run: (payload: VerbPayload[V]) => Promise<Outcome | null>;
  /** Asked for and not yet answered. */
  busy: boolean;
  /** Since when, in milliseconds since 1970. */
  busySince: number | null;
  /** Why it cannot be used now; null when it can. */
  disabledReason: string | null;
}

/** A verb as a button needs it. */
export function useVerb<V extends VerbName>(verb: V): VerbHandle<V> {
  const since = useBusy((busy) => busy.verbs[verb]);
  const disabledReason = useRun(({ state, connection }) =>
    verbDisabledReason(verb, state, allowing(connection)),
  );
  return {
    run: (payload) => runVerb(verb, payload),
    busy: since !== undefined,
    busySince: since ?? null,
    disabledReason,
  };
}

export interface SeriesHandle {
  series: Series | undefined;
  /** Changes when there is something new to draw. */
  version: number;
  loading: boolean;
  error: string | null;
}

/** One scalar over all steps: filled from the facts, continued by the stream. */
export function useSeries(name: string): SeriesHandle {
  const runId = useRunId();
  const generation = useRun((live) => live.generation);
  const version = useRun((live) => live.seriesVersion);
  const [loading, setLoading] = useState(true);
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    // Before the first hello the stream could still start after a gap.
    if (runId === null || generation === 0) return;
    const closing = new AbortController();
    setLoading(true);
    fillSeries(runId, name, closing.signal)
      .then(() => setError(null))
      .catch((problem: unknown) => {
        if (closing.signal.aborted) return;
        setError(problem instanceof Error ? problem.message : String(problem));
      })
      .finally(() => {
        if (!closing.signal.aborted) setLoading(false);
      });
    return () => closing.abort();
  }, [runId, name, generation]);
  return { series: series.get(name), version, loading, error };
}

function isRefusal(error: ApiError | null): boolean {
  return error?.status === 401 || error?.status === 403;
}

/** The newest runs, as many as a menu shows; polled every few seconds. */
export function useRuns() {
  return useQuery<RunListing, ApiError>({
    queryKey: ["runs"],
    queryFn: ({ signal }) => api.get<RunListing>("/runs?sort=-started_at&columns=&limit=50", signal),
    // Without a key there is no use in asking again; the guard counts wrong tokens.
    refetchInterval: ({ state }) => (isRefusal(state.error) ? false : 5_000),
  });
}

/** One run with its header. */
export function useRunDetail(runId: string | null) {
  return useQuery<RunDetail, ApiError>({
    queryKey: ["run", runId],
    queryFn: ({ signal }) => api.get<RunDetail>(runPath(runId ?? ""), signal),
    enabled: runId !== null,
  });
}
