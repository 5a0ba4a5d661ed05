/** Which values set the range of a chart: a few spikes, or one line that diverged, must not flatten the rest. */
import { isDrawable, type Line, measured, type Range } from "./lines";

/** Fewer values are all shown: nothing says which of them are unusual. */
export const FEWEST_VALUES = 20;
/** Quantiles are taken of so many values at most. */
const SAMPLED = 2_048;
const TAIL = 0.05;
/** How many widths of the middle 90 % a value may lie beyond them. */
const REACH = 3;
/** The middle 90 % count as no narrower than this share of the median, so that noise of a constant stays in. */
const LEAST_WIDTH = 0.25;
/** A line joins the range of the narrower ones if that does not grow by more than this. */
const MOST_GROWTH = 10;
/** A line with fewer values, or with less than this share of those of the longest, sets no range: a single point is the narrowest of all. */
const FEWEST_OF_A_LINE = 3;
const LEAST_SHARE = 0.1;

/**
 * The values that are usual for a metric; null where all are.
 *
 * On a log scale distances are decades. The cost does not grow with the length but for one pass over it.
 */
export function fenceOf(values: ArrayLike<number>, logY: boolean): Range | null {
  const sample = sampleOf(values, logY);
  if (sample.length < FEWEST_VALUES) return null;
  const at = (share: number) => sample[Math.round(share * (sample.length - 1))] as number;
  const [low, high] = [at(TAIL), at(1 - TAIL)];
  const width = Math.max(high - low, logY ? LEAST_WIDTH : LEAST_WIDTH * Math.abs(at(0.5)));
  if (!(width > 0)) return null;
  const fence: Range = [low - REACH * width, high + REACH * width];
  return logY ? [10 ** fence[0], 10 ** fence[1]] : fence;
}

/** Evenly spread values in rising order, as decades on a log scale. */
function sampleOf(values: ArrayLike<number>, logY: boolean): Float64Array {
  const drawable: number[] = [];
  const stride = Math.max(1, Math.floor(values.length / SAMPLED));
  for (let index = 0; index < values.length; index += stride) {
    const value = values[index] as number;
    if (isDrawable(value, logY)) drawable.push(logY ? Math.log10(value) : value);
  }
  return Float64Array.from(drawable).sort();
}

/** Whether a value lies within limits; all do where there are none. */
export function isWithin(value: number, limits: Range | null | undefined): boolean {
  return !limits || (value >= limits[0] && value <= limits[1]);
}

/**
 * The limits that show the usual values of all lines; null where everything lies within.
 *
 * Lines are taken from the narrowest up. Half of them always count; a wider one only if the others stay readable. Lines
 * of a few points come last, whatever their width.
 */
export function robustLimits(lines: readonly Line[], logY: boolean): Range | null {
  const extents = lines.flatMap((line) => usualExtent(line, logY) ?? []);
  if (extents.length === 0) return null;
  const longest = Math.max(...extents.map(({ count }) => count));
  const isShort = ({ count }: Extent) => count < FEWEST_OF_A_LINE || count < LEAST_SHARE * longest;
  extents.sort(
    (a, b) => Number(isShort(a)) - Number(isShort(b)) || widthOf(a.usual, logY) - widthOf(b.usual, logY),
  );
  const setting = extents.filter((extent) => !isShort(extent)).length || extents.length;
  const always = Math.ceil(setting / 2);
  let limits = extents
    .slice(0, always)
    .map(({ usual }) => usual)
    .reduce(union);
  for (const { usual } of extents.slice(always)) {
    const wider = union(limits, usual);
    if (widthOf(wider, logY) > MOST_GROWTH * widthOf(limits, logY)) break;
    limits = wider;
  }
  const isWhole = extents.every(({ all }) => isWithin(all[0], limits) && isWithin(all[1], limits));
  return isWhole ? null : limits;
}

interface Extent {
  /** Range of all values of a line, and of those within its own fence. */
  all: Range;
  usual: Range;
  /** How many values there are. */
  count: number;
}

/** Null where a line has no value that can be drawn. */
function usualExtent(line: Line, logY: boolean): Extent | null {
  const values = measured(line);
  const fence = fenceOf(values, logY);
  let all: Range | null = null;
  let usual: Range | null = null;
  let count = 0;
  for (let index = 0; index < line.x.length; index += 1) {
    const value = values[index] as number;
    if (!isDrawable(value, logY)) continue;
    count += 1;
    if (all === null || !isWithin(value, all)) all = union(all ?? [value, value], [value, value]);
    if (isWithin(value, fence) && (usual === null || !isWithin(value, usual)))
      usual = union(usual ?? [value, value], [value, value]);
  }
  return all === null ? null : { all, usual: usual ?? all, count };
}

const union = (a: Range, b: Range): Range => [Math.min(a[0], b[0]), Math.max(a[1], b[1])];

/** How much room a range takes; that of a constant is not nothing. */
function widthOf([low, high]: Range, logY: boolean): number {
  if (logY) return Math.max(Math.log10(high / low), LEAST_WIDTH);
  return Math.max(high - low, LEAST_WIDTH * Math.abs((low + high) / 2)) || Number.MIN_VALUE;
}

export interface OutOfRange {
  above: number;
  below: number;
  highest: number;
  lowest: number;
}

/** How many measured values of the shown part of x lie beyond the limits, and the most extreme ones. */
export function countOutside(lines: readonly Line[], limits: Range | null, [from, to]: Range): OutOfRange {
  const counted = {
    above: 0,
    below: 0,
    highest: Number.NEGATIVE_INFINITY,
    lowest: Number.POSITIVE_INFINITY,
  };
  if (limits === null) return counted;
  for (const line of lines) {
    const values = measured(line);
    for (let index = 0; index < line.x.length; index += 1) {
      const [x, value] = [line.x[index] as number, values[index] as number];
      if (x < from || x > to || !Number.isFinite(value)) continue;
      if (value > limits[1]) {
        counted.above += 1;
        counted.highest = Math.max(counted.highest, value);
      } else if (value < limits[0]) {
        counted.below += 1;
        counted.lowest = Math.min(counted.lowest, value);
      }
    }
  }
  return counted;
}
