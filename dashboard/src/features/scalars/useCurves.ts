/** Curves of several runs: ended runs are fetched once, live runs are polled. */
import { useMemo, useRef } from "react";
import { type Curve, type CurveAxis, fetchCurves } from "@/api/scalars";
import { useLatest } from "@/live/captures";

export interface CurveRun {
  id: string;
  name: string;
  live: boolean;
  /** It changes when there is more to draw. */
  step: number | null;
  timeline: number;
  /** Names of the series it has. */
  scalars: readonly string[];
  /** Which colour it has: the first six have one. */
  colourSlot: number;
}

/** Shortest interval between requests for live curves. */
const LIVE_MS = 1_000;

interface Request {
  ids: string[];
  name: string;
  x: CurveAxis;
  /** Sum of the steps so far; only there to change. */
  version: string;
}

interface Fetched {
  name: string;
  x: CurveAxis;
  curves: ReadonlyMap<string, Curve>;
}

function keyOf(runs: readonly CurveRun[], name: string | null, x: CurveAxis, live: boolean): string | null {
  const wanted = runs.filter((run) => run.live === live);
  if (name === null || wanted.length === 0) return null;
  const version = wanted.map(({ step, timeline }) => `${timeline}.${live ? step : ""}`).join(" ");
  return JSON.stringify({ ids: wanted.map(({ id }) => id), name, x, version } satisfies Request);
}

async function load(key: string, signal: AbortSignal): Promise<Fetched> {
  const { ids, name, x } = JSON.parse(key) as Request;
  return { name, x, curves: await fetchCurves(ids, name, x, signal) };
}

export interface Curves {
  curves: ReadonlyMap<string, Curve>;
  loading: boolean;
  error: string | null;
}

const NOTHING: ReadonlyMap<string, Curve> = new Map();

export function useCurves(runs: readonly CurveRun[], name: string | null, x: CurveAxis): Curves {
  const endedKey = keyOf(runs, name, x, false);
  const liveKey = keyOf(runs, name, x, true);
  const ended = useLatest(endedKey, load, { intervalMs: 0 });
  const live = useLatest(liveKey, load, { intervalMs: LIVE_MS });
  const last = useRef(NOTHING);
  const curves = useMemo(() => {
    const fitting = [live.data, ended.data].filter((data) => data?.name === name && data?.x === x);
    // Until the first answer in the new measure the old curves stay, so that the panel does not blink.
    if (fitting.length === 0 && (endedKey !== null || liveKey !== null)) return last.current;
    return new Map(fitting.flatMap((data) => [...(data?.curves ?? [])]));
  }, [live.data, ended.data, name, x, endedKey, liveKey]);
  last.current = curves;
  const waits = (key: string | null, latest: { key: string | null }) => key !== null && latest.key === null;
  return {
    curves,
    loading: waits(endedKey, ended) || waits(liveKey, live),
    error: ended.error?.message ?? live.error?.message ?? null,
  };
}
