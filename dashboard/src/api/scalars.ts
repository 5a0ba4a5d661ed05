/** Metrics as typed arrays: exact points, or the lowest and highest value of each bucket. */
import { api, runPath } from "./client";
import { readSafetensors, toFloat64 } from "./safetensors";

export type CurveAxis = "step" | "epoch" | "time";

export interface Curve {
  x: Float64Array;
  low: Float64Array;
  high: Float64Array;
  exact: boolean;
}

/** Buckets across the widest chart; more would lie on one pixel. */
export const CURVE_POINTS = 1_000;

const NO_POINTS = new Float64Array(0);

/** The curves of the runs that have that metric, by id. */
export async function fetchCurves(
  runIds: readonly string[],
  name: string,
  x: CurveAxis,
  signal?: AbortSignal,
): Promise<Map<string, Curve>> {
  const query = new URLSearchParams({
    runs: runIds.join(","),
    name,
    x,
    points: String(CURVE_POINTS),
    format: "safetensors",
  });
  const { tensors, metadata } = readSafetensors(await api.bytes(`/curves?${query}`, signal));
  const column = (id: string, part: string) => {
    const tensor = tensors.get(`${id}.${part}`);
    return tensor === undefined ? NO_POINTS : toFloat64(tensor.data);
  };
  const curves = new Map<string, Curve>();
  for (const id of runIds) {
    const exact = (metadata[`${id}.exact`] ?? "true") === "true";
    const curve = { x: column(id, "x"), low: column(id, "low"), high: column(id, "high"), exact };
    if (curve.x.length > 0) curves.set(id, curve);
  }
  return curves;
}

export interface FetchedSeries {
  step: Float64Array;
  low: Float64Array;
  high: Float64Array;
  exact: boolean;
  timeline: number;
}

/** One metric of one run over all its steps, in at most `points` buckets. */
export async function fetchSeries(
  runId: string,
  name: string,
  points: number,
  signal?: AbortSignal,
): Promise<FetchedSeries> {
  return seriesIn(await fetchFile(runId, name, points, signal), name);
}

/** A part of the series as they were in one timeline. */
export interface TimelinePart {
  timeline: number;
  /** First step of the part. */
  start: number;
}

/** Several metrics of one run, in as few requests as the length of an address allows. */
export async function fetchManySeries(
  runId: string,
  names: readonly string[],
  points: number,
  signal?: AbortSignal,
  part?: TimelinePart,
): Promise<Map<string, FetchedSeries>> {
  const fetched = await Promise.all(
    nameGroups(names).map(async (group) => {
      const file = await fetchFile(runId, group.join(","), points, signal, part);
      return group.map((name) => [name, seriesIn(file, name)] as const);
    }),
  );
  return new Map(fetched.flat());
}

/** The server takes so many characters of names. */
const NAMES_LENGTH = 4_000;

/** Names that go into one request each; one with a comma goes alone. */
export function nameGroups(names: readonly string[]): string[][] {
  const groups: string[][] = [];
  let room = 0;
  for (const name of names) {
    const isAlone = name.includes(",");
    if (isAlone || name.length + 1 > room) {
      groups.push([]);
      room = NAMES_LENGTH;
    }
    groups.at(-1)?.push(name);
    room = isAlone ? 0 : room - name.length - 1;
  }
  return groups;
}

async function fetchFile(
  runId: string,
  names: string,
  points: number,
  signal?: AbortSignal,
  part?: TimelinePart,
) {
  const query = new URLSearchParams({ names, points: String(points), format: "safetensors" });
  if (part !== undefined) {
    query.set("timeline", String(part.timeline));
    query.set("start", String(part.start));
  }
  return readSafetensors(await api.bytes(runPath(runId, `/scalars?${query}`), signal));
}

function seriesIn({ tensors, metadata }: Awaited<ReturnType<typeof fetchFile>>, name: string): FetchedSeries {
  const column = (part: string) => {
    const tensor = tensors.get(`${name}.${part}`);
    return tensor === undefined ? NO_POINTS : toFloat64(tensor.data);
  };
  return {
    step: column("step"),
    low: column("low"),
    high: column("high"),
    // Said once for the file, or for each metric.
    exact: (metadata[`${name}.exact`] ?? metadata.exact ?? "true").toLowerCase() === "true",
    timeline: Number(metadata.timeline ?? 0),
  };
}
