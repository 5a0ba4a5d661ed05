/** Which lines the trajectories panel draws: rows by one metric, or pairs of rows by their cosine. */

import type { Line } from "@/charts/line/lines";
import type { RowNames } from "@/lib/rowNames";
import type { SourceTracks, Track } from "@/live/trajectories";

/** What is drawn: a metric of the rows, or how alike pairs of them are. */
export const PAIRS = "pairs";

/** The metric in words. */
export function metricWords(name: string, { labelOf }: RowNames): string {
  return name === PAIRS ? "Pairs" : labelOf(name);
}

/** Metrics of these tracks, those that the run lists first in its order. */
export function metricsOf({ rows }: SourceTracks, order: readonly string[]): string[] {
  const names = new Set<string>();
  for (const track of rows.values()) for (const name of track.columns.keys()) names.add(name);
  const listed = order.filter((name) => names.has(name));
  return [...listed, ...[...names].filter((name) => !listed.includes(name)).sort()];
}

interface Colours {
  of: (id: number) => string;
  removed: string;
  faint: string;
}

const NONE = new Float64Array();

/** A line for every row that has points; one that is no longer watched stays, dashed. */
export function rowLines(tracks: SourceTracks, metric: string, colours: Colours): Line[] {
  const watched = new Set(tracks.watched);
  return [...tracks.rows].map(([id, { step, columns }]) => {
    const followed = watched.has(id);
    return {
      id: String(id),
      label: followed ? String(id) : `${id}, no longer watched`,
      step,
      value: columns.get(metric) ?? NONE,
      colour: followed ? colours.of(id) : colours.removed,
      dashed: !followed,
    };
  });
}

/** A line for every pair; the chosen one in front, all of them when none is. */
export function pairLines(tracks: SourceTracks, chosen: string | null, colours: Colours): Line[] {
  const watched = new Set(tracks.watched);
  return [...tracks.pairs].map(([pair, { step, columns }]) => {
    const ids = pair.split(",").map(Number);
    const followed = ids.every((id) => watched.has(id));
    const faint = chosen !== null && chosen !== pair;
    return {
      id: pair,
      label: pair.replace(",", "·"),
      step,
      value: columns.get("cos") ?? NONE,
      colour: faint || !followed ? colours.faint : colours.of(ids[0] as number),
      faint,
      dashed: !followed,
    };
  });
}

/** `a,b` with the smaller first, as the server names a pair. */
export function pairName(a: number, b: number): string {
  return a < b ? `${a},${b}` : `${b},${a}`;
}

/** The last cosine of a pair at or before a step; null when there is none. */
export function cosineNow({ pairs }: SourceTracks, a: number, b: number): number | null {
  const cosines = pairs.get(pairName(a, b))?.columns.get("cos");
  return cosines?.length ? (cosines[cosines.length - 1] as number) : null;
}

/** Rows as a file has them: one line a point. */
export function tableOf(
  tracks: SourceTracks,
  order: readonly string[],
): { name: string; cells: (number | string | null)[] }[] {
  const metrics = metricsOf(tracks, order);
  const rows: (number | string | null)[][] = [];
  const add = (id: string, { step, columns }: Track, names: readonly string[]) => {
    for (let index = 0; index < step.length; index += 1) {
      const values = names.map((name) => columns.get(name)?.[index] ?? null);
      rows.push([id, step[index] as number, ...values.map((value) => (Number.isNaN(value) ? null : value))]);
    }
  };
  for (const [id, track] of tracks.rows) add(String(id), track, [...metrics, "cos"]);
  for (const [pair, track] of tracks.pairs) add(pair.replace(",", " × "), track, [...metrics, "cos"]);
  return ["feature", "step", ...metrics, "cos"].map((name, column) => ({
    name,
    cells: rows.map((row) => row[column] ?? null),
  }));
}

/** Reads ids that a person types: `3, 15 31`; null where one is no whole number. */
export function readIds(text: string): number[] | null {
  const parts = text.split(/[\s,;]+/).filter(Boolean);
  const ids = parts.map(Number);
  return ids.length && ids.every((id) => Number.isInteger(id) && id >= 0) ? ids : null;
}
