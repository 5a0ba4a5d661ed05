/** What became of the watched rows: columns over steps for each row and each pair of rows. */

import { api, type Reader, runPath } from "@/api/client";
import { readSafetensors, toFloat64 } from "@/api/safetensors";
import type { Latest } from "./latestRequest";
import { useStepRequest } from "./stepRequest";
import { useWatches } from "./watches";

/** Most points of one series; if there are more, the server keeps first, last and extremes. */
const SHOWN_POINTS = 2_000;
export const ALL_POINTS = 10_000;

/** One row or pair: its steps and, by name, its values; NaN where a metric was not there. */
export interface Track {
  step: Float64Array;
  columns: ReadonlyMap<string, Float64Array>;
}

export interface SourceTracks {
  source: string;
  watched: readonly number[];
  rows: ReadonlyMap<number, Track>;
  /** By `a,b` with a < b. */
  pairs: ReadonlyMap<string, Track>;
}

export interface Trajectories {
  sources: readonly SourceTracks[];
  /** Whether every point that is kept is here. */
  exact: boolean;
}

/** Names are `<source number>/<row>.<column>` and `<source number>/<a>,<b>.<column>`. */
const NAME = /^(\d+)\/(\d+(?:,\d+)?)\.(.+)$/;

interface Gathered {
  step: Float64Array;
  columns: Map<string, Float64Array>;
}

export function readTrajectories(buffer: ArrayBuffer): Trajectories {
  const { tensors, metadata } = readSafetensors(buffer);
  const names = JSON.parse(metadata.sources ?? "[]") as string[];
  const watched = JSON.parse(metadata.watched ?? "[]") as number[][];
  const bySource = names.map(() => new Map<string, Gathered>());
  for (const [name, { data }] of tensors) {
    const match = NAME.exec(name);
    const tracks = match && bySource[Number(match[1])];
    if (!match || !tracks) continue;
    const [, , id, column] = match as unknown as [string, string, string, string];
    const track = tracks.get(id) ?? { step: new Float64Array(), columns: new Map() };
    tracks.set(id, track);
    if (column === "step") track.step = toFloat64(data);
    else track.columns.set(column, toFloat64(data));
  }
  const sources = names.map((source, index): SourceTracks => {
    const tracks = [...(bySource[index] ?? [])];
    return {
      source,
      watched: watched[index] ?? [],
      rows: new Map(tracks.filter(([id]) => !id.includes(",")).map(([id, track]) => [Number(id), track])),
      pairs: new Map(tracks.filter(([id]) => id.includes(","))),
    };
  });
  return { sources, exact: metadata.exact === "true" };
}

export async function fetchTrajectories(
  ask: Reader,
  runId: string,
  points: number,
  signal?: AbortSignal,
): Promise<Trajectories> {
  const path = runPath(runId, `/debug/trajectories?points=${points}&format=safetensors`);
  return readTrajectories(await ask.bytes(path, signal));
}

/** All tracks, fetched again after each step and when the watches change. */
export function useTrajectories(): Latest<Trajectories> {
  const watched = useWatches(({ ids, source }) => JSON.stringify([source, ids]));
  return useStepRequest({
    moment: ({ timeline, step }) => `${timeline} ${step}`,
    variant: watched,
    load: (runId, reader, signal) => fetchTrajectories(reader, runId, SHOWN_POINTS, signal),
  });
}

export async function clearTrajectories(runId: string): Promise<void> {
  await api.post<"/runs/{run_id}/debug/trajectories/clear">(runPath(runId, "/debug/trajectories/clear"));
}
