/** Points of the charts in view: over steps from the record and the stream, over epochs or time from the curves. */
import { useEffect, useRef, useState } from "react";
import { type CurveAxis, fetchCurves } from "@/api/scalars";
import { fillManySeries } from "@/live/fillSeries";
import { useRunId, useRunState } from "@/live/hooks";
import { useLatestRequest } from "@/live/latestRequest";
import type { AbandonedPart } from "@/live/series";
import { series, useRun } from "@/live/store";

export interface ChartPoints {
  x: Float64Array;
  y: Float64Array;
  /** Whether these are all values, and not the lowest and highest of each bucket. */
  exact: boolean;
  /** What the run did before it went back; over steps only. */
  abandoned?: readonly AbandonedPart[];
}

export interface ChartData {
  points: (name: string) => ChartPoints | null;
  error: string | null;
}

/** Points asked for; a chart of 300 px shows a fraction of them, but spikes are counted and zoomed into. */
const MAX_POINTS = 10_000;
/** How long names that come into view are gathered, so that a scroll makes one request. */
const GATHER_MS = 50;
/** Curves over epochs or time of a running training are fetched again after so long. */
const REFETCH_MS = 3_000;

/** `names` are those of the charts in view; others keep what was fetched for them. */
export function useChartData(names: readonly string[], x: CurveAxis): ChartData {
  const filling = useFilledSeries(x === "step" ? names : NONE);
  const curves = useCurvesOf(x === "step" ? NONE : names, x);
  return x === "step" ? { points: seriesPoints, error: filling } : curves;
}

const NONE: readonly string[] = [];

function seriesPoints(name: string): ChartPoints | null {
  const one = series.get(name);
  if (one === undefined || one.length === 0) return null;
  const { step, value } = one.view();
  return { x: step, y: value, exact: one.exact, abandoned: one.abandoned };
}

/** Fills the series that were not filled since the stream began; says why the last one failed. */
function useFilledSeries(names: readonly string[]): string | null {
  const runId = useRunId();
  const restarts = useRun((live) => live.restarts);
  const filled = useRef({ key: "", names: new Set<string>() });
  const [error, setError] = useState<string | null>(null);
  const wanted = names.join("\n");
  useEffect(() => {
    // Before the first hello the stream could still start after a gap.
    if (runId === null || restarts === 0 || wanted === "") return;
    const key = `${runId} ${restarts}`;
    if (filled.current.key !== key) filled.current = { key, names: new Set() };
    const { names: known } = filled.current;
    const timer = setTimeout(() => {
      const missing = wanted.split("\n").filter((name) => !known.has(name));
      if (missing.length === 0) return;
      for (const name of missing) known.add(name);
      fillManySeries(runId, missing, MAX_POINTS)
        .then(() => setError(null))
        .catch((problem: unknown) => {
          for (const name of missing) known.delete(name);
          setError(problem instanceof Error ? problem.message : String(problem));
        });
    }, GATHER_MS);
    return () => clearTimeout(timer);
  }, [runId, restarts, wanted]);
  return error;
}

interface CurvesRequest {
  runId: string;
  names: readonly string[];
  x: CurveAxis;
  /** Only there to change. */
  version: string;
}

interface FetchedCurves {
  owner: string;
  points: ReadonlyMap<string, ChartPoints>;
}

const ownerOf = (runId: string | null, x: CurveAxis, timeline: number | undefined) =>
  `${runId} ${x} ${timeline}`;

function useCurvesOf(names: readonly string[], x: CurveAxis): ChartData {
  const runId = useRunId();
  const step = useRunState((state) => state.step);
  const timeline = useRunState((state) => state.timeline);
  const owner = ownerOf(runId, x, timeline);
  const request: CurvesRequest | null =
    runId === null || names.length === 0 ? null : { runId, names, x, version: `${timeline}.${step}` };
  const key = request && JSON.stringify(request);
  const latest = useLatestRequest(key, (wanted, signal) => loadCurves(wanted, signal, owner), {
    intervalMs: REFETCH_MS,
  });
  const kept = useRef<{ owner: string; points: Map<string, ChartPoints> }>({ owner: "", points: new Map() });
  if (kept.current.owner !== owner) kept.current = { owner, points: new Map() };
  if (latest.data?.owner === owner)
    for (const [name, points] of latest.data.points) kept.current.points.set(name, points);
  const { points } = kept.current;
  return { points: (name) => points.get(name) ?? null, error: latest.error?.message ?? null };
}

async function loadCurves(key: string, signal: AbortSignal, owner: string): Promise<FetchedCurves> {
  const { runId, names, x } = JSON.parse(key) as CurvesRequest;
  const points = new Map<string, ChartPoints>();
  await Promise.all(
    names.map(async (name) => {
      const curve = (await fetchCurves([runId], name, x, signal)).get(runId);
      if (curve !== undefined) points.set(name, inBuckets(curve.x, curve.low, curve.high, curve.exact));
    }),
  );
  return { owner, points };
}

/** The lowest and highest value of each bucket, one after the other. */
export function inBuckets(
  x: Float64Array,
  low: Float64Array,
  high: Float64Array,
  exact: boolean,
): ChartPoints {
  if (exact) return { x, y: low, exact };
  const both = new Float64Array(2 * x.length);
  const y = new Float64Array(2 * x.length);
  for (let index = 0; index < x.length; index += 1) {
    both.fill(x[index] as number, 2 * index, 2 * index + 2);
    y[2 * index] = low[index] as number;
    y[2 * index + 1] = high[index] as number;
  }
  return { x: both, y, exact };
}
