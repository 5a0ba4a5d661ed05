/** Several lines over steps, each with steps of its own: ranges, places, labels at their ends. */
import { type Axis, axisOf, linearAxis } from "@/charts/axis";
import { lowerBound } from "./decimate";

export interface Line {
  id: string;
  /** At the end of the line. */
  label: string;
  step: ArrayLike<number>;
  value: ArrayLike<number>;
  /** A CSS colour. */
  colour: string;
  /** No longer followed: drawn dashed. */
  dashed?: boolean;
  /** Behind the others. */
  faint?: boolean;
}

export interface Threshold {
  value: number;
  label: string;
  colour: string;
  textColour: string;
}

export type Range = readonly [from: number, to: number];

/** First and last step over all lines; null when there is no point. */
export function stepExtent(lines: readonly Line[]): Range | null {
  let from = Number.POSITIVE_INFINITY;
  let to = Number.NEGATIVE_INFINITY;
  for (const { step } of lines) {
    if (!step.length) continue;
    from = Math.min(from, step[0] as number);
    to = Math.max(to, step[step.length - 1] as number);
  }
  return from <= to ? [from, to] : null;
}

/** Room for the labels at the ends of lines that are followed, in pixels; 11 px letters are about 6 wide. */
export function labelRoom(lines: readonly Line[]): number {
  const longest = lines.reduce(
    (most, { label, dashed }) => (dashed ? most : Math.max(most, endLabel(label).length)),
    0,
  );
  return Math.max(44, longest * 6 + 12);
}

/** A label as it stands at the end of a line: of a long one its end, where names of layers differ. */
export function endLabel(label: string): string {
  return label.length > LABEL_LETTERS ? `…${label.slice(1 - LABEL_LETTERS)}` : label;
}

const LABEL_LETTERS = 20;

/** The value axis of what is seen, thresholds included where they lie near. */
export function valueAxis(
  lines: readonly Line[],
  range: Range,
  thresholds: readonly Threshold[],
  most: number,
  logarithmic = false,
): Axis {
  if (logarithmic) return axisOf(seenValues(lines, range), true, most);
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const at of seenValues(lines, range)) {
    if (!Number.isFinite(at)) continue;
    low = Math.min(low, at);
    high = Math.max(high, at);
  }
  if (low > high) return linearAxis(0, 1, most);
  const span = high - low || Math.abs(high) || 1;
  for (const { value } of thresholds) {
    if (value > low - span && value < high + span) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  // Where no value is negative, the axis does not pretend that one could be.
  return linearAxis(
    low >= 0 ? Math.max(low - room, low < span ? -room * 0.2 : 0) : low - room,
    high + room,
    most,
  );
}

/** What lies within a range of steps, and the point before it, from which a line comes in. */
function seenValues(lines: readonly Line[], range: Range): number[] {
  return lines.flatMap(({ step, value }) => {
    const start = Math.max(0, lowerBound(step, step.length, range[0]) - 1);
    const seen: number[] = [];
    for (let index = start; index < step.length && (step[index] as number) <= range[1]; index += 1)
      seen.push(value[index] as number);
    return seen;
  });
}

/** Index of the point of a line at or before a step; null before its first. */
export function pointAt({ step }: Line, wanted: number): number | null {
  const index = lowerBound(step, step.length, wanted);
  if (index < step.length && step[index] === wanted) return index;
  return index > 0 ? index - 1 : null;
}

/** Moves labels apart that would stand on each other, as little as needed; they keep their order and stay inside. */
export function spread(
  positions: readonly number[],
  distance: number,
  lowest: number,
  highest: number,
): number[] {
  const order = positions
    .map((_, index) => index)
    .sort((a, b) => (positions[a] as number) - (positions[b] as number));
  const moved = [...positions];
  let free = lowest;
  for (const index of order) {
    moved[index] = Math.max(moved[index] as number, free);
    free = (moved[index] as number) + distance;
  }
  let limit = highest;
  for (const index of [...order].reverse()) {
    moved[index] = Math.min(moved[index] as number, limit);
    limit = (moved[index] as number) - distance;
  }
  return moved;
}
