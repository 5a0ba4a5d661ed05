/** From the buckets of a run to the lines that are drawn. */
import type { Curve } from "@/api/scalars";

/** The line of a curve: its points, or the middle of each bucket. */
export function middleOf({ low, high, exact }: Pick<Curve, "low" | "high" | "exact">): Float64Array {
  if (exact) return low;
  return Float64Array.from(low, (value, index) => (value + (high[index] as number)) / 2);
}

/**
 * Exponential mean with bias correction; `weight` (0…1) is what the old value counts at each point.
 *
 * A point that is not finite stays a gap and leaves no trace in the mean.
 */
export function smooth(values: ArrayLike<number>, weight: number): Float64Array {
  const smoothed = new Float64Array(values.length);
  let mean = 0;
  let counted = 0;
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index] as number;
    if (!Number.isFinite(value)) {
      smoothed[index] = Number.NaN;
      continue;
    }
    mean = weight * mean + (1 - weight) * value;
    counted = weight * counted + (1 - weight);
    smoothed[index] = mean / counted;
  }
  return smoothed;
}

/** Seconds in the unit that a length of time is told in. */
export function timeUnit(span: number): number {
  if (span < 180) return 1;
  return span < 3 * 3600 ? 60 : 3600;
}

const UNITS: Record<number, string> = { 1: "s", 60: "min", 3600: "h" };

/** Seconds on an axis: 45 s, 12 min, 3.5 h. */
export function timeLabel(seconds: number, span: number): string {
  const unit = timeUnit(span);
  return `${trim(seconds / unit)} ${UNITS[unit]}`;
}

const trim = (value: number): string => String(Number(value.toFixed(2)));
