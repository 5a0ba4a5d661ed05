/** Values of a curve from its buckets, and time on its axis in words. */
import type { Curve } from "@/api/scalars";

/** The line of a curve: its points, or the middle of each bucket. */
export function middleOf({ low, high, exact }: Pick<Curve, "low" | "high" | "exact">): Float64Array {
  if (exact) return low;
  return Float64Array.from(low, (value, index) => (value + (high[index] as number)) / 2);
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
  return `${shortest(seconds / unit, span / unit)} ${UNITS[unit]}`;
}

/** A number in as few decimals as tell ticks of an axis of this length apart: two, or more where it is short. */
export function shortest(value: number, span: number): string {
  const decimals = span > 0 ? 2 - Math.floor(Math.log10(span)) : 2;
  return String(Number(value.toFixed(Math.min(12, Math.max(2, decimals)))));
}
