/** From long lines to the few points per pixel that are drawn, and the range of values that shows them. */
import { decimate, gather, visibleWindow } from "./decimate";
import { isDrawable, type Line, measured, type Range, type Threshold } from "./lines";
import { isWithin } from "./robust";

export type Column = (number | null)[];

/** The points of one line that are drawn. */
export interface DrawnLine {
  line: Line;
  /** Indices into the line. */
  kept: Uint32Array;
  x: number[];
  y: Column;
  raw: Column | null;
  low: Column | null;
  high: Column | null;
}

/** At most three points of a line per pixel column of `range`, and one each side of it. */
export function drawnLine(line: Line, range: Range, columns: number, logY: boolean): DrawnLine {
  const { x, y, raw, band } = line;
  const window = visibleWindow(x, x.length, range[0], range[1]);
  const kept = decimate(x, measured(line), window, Math.max(64, Math.floor(columns)));
  const edges = band && Array.from(kept, (index) => band(index));
  const edge = (side: 0 | 1): Column | null =>
    edges?.map((pair) => (isDrawable(pair[side], logY) ? pair[side] : null)) ?? null;
  return {
    line,
    kept,
    x: Array.from(kept, (index) => x[index] as number),
    y: gather(y, kept, logY),
    raw: raw ? gather(raw, kept, logY) : null,
    low: edge(0),
    high: edge(1),
  };
}

/** The share of the values' own range by which a band may widen it. */
const BAND_ROOM = 0.35;

/** The values shown: every line whole or as far as the limits reach, of the bands as much as does not squeeze them, thresholds that are near. */
export function valueRange(
  drawn: readonly DrawnLine[],
  thresholds: readonly Threshold[],
  logY: boolean,
  limits: Range | null = null,
): Range {
  const columns = drawn.flatMap(({ y, raw }) => (raw ? [y, raw] : [y]));
  let [low, high] = extent(columns, limits);
  // Where only values beyond the limits are shown, the axis stays where the others were.
  if (low > high && limits !== null) [low, high] = limits;
  if (low > high) return logY ? [0.1, 1] : [0, 1];
  const span = Math.max(high - low, Math.abs(high) * 1e-6);
  let bottom = Math.max(Math.min(low, extent(drawn.map((one) => one.low))[0]), low - span * BAND_ROOM);
  let top = Math.min(Math.max(high, extent(drawn.map((one) => one.high))[1]), high + span * BAND_ROOM);
  const reach = high - low || Math.abs(high) || 1;
  for (const { value } of thresholds) {
    if (!isDrawable(value, logY) || value <= low - reach || value >= high + reach) continue;
    bottom = Math.min(bottom, value);
    top = Math.max(top, value);
  }
  if (logY) return [Math.max(bottom, low / 2) / 1.05, top * 1.05];
  // A constant differs from its own mean by rounding, which is no range to show.
  const isConstant = top - bottom <= Math.abs(top) * 1e-9;
  const padding = isConstant ? Math.abs(top) * 0.05 || 1 : (top - bottom) * 0.05;
  // Where no value is negative, the axis does not suggest that one could be.
  const floor = low >= 0 ? 0 : Number.NEGATIVE_INFINITY;
  return [Math.max(bottom - padding, floor), top + padding];
}

function extent(columns: readonly (Column | null)[], limits: Range | null = null): Range {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const column of columns) {
    for (const value of column ?? []) {
      if (value === null || !isWithin(value, limits)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return [low, high];
}

/** Indices of values with no neighbour, which make no line that could be seen. */
export function singlePoints(column: Column): number[] {
  const isGap = (index: number) => column[index] === null || column[index] === undefined;
  return column.flatMap((value, index) =>
    value !== null && isGap(index - 1) && isGap(index + 1) ? [index] : [],
  );
}

/** Where both columns have values, as ranges of indices. */
export function stretches(low: Column, high: Column): [start: number, stop: number][] {
  const ranges: [number, number][] = [];
  let start = -1;
  for (let index = 0; index <= low.length; index += 1) {
    const whole = index < low.length && low[index] !== null && high[index] !== null;
    if (whole && start < 0) start = index;
    if (!whole && start >= 0) {
      ranges.push([start, index]);
      start = -1;
    }
  }
  return ranges;
}
