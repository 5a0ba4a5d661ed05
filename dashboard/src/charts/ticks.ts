/** Numbers on an axis. */
import { formatExponent, formatFixed } from "@/lib/format";

/** Ticks with the same decimals, as many as the step between them needs; none where the axis leaves one out. */
export function sameDecimals(splits: readonly (number | null)[]): string[] {
  const shown = splits.filter((split): split is number => split !== null);
  const largest = Math.max(...shown.map(Math.abs), 0);
  const gaps = shown.slice(1).map((split, index) => Math.abs(split - (shown[index] as number)));
  const gap = Math.min(...gaps.filter((size) => size > 0), Number.POSITIVE_INFINITY);
  const finest = Number.isFinite(gap) ? gap : largest || 1;
  if (largest > 0 && (largest < 1e-3 || largest >= 1e7)) {
    return splits.map((split) => (split === null ? "" : split === 0 ? "0" : formatExponent(split, 0)));
  }
  const decimals = decimalsOf(finest);
  return splits.map((split) => (split === null ? "" : formatFixed(split, decimals)));
}

/** The fewest decimals that write a step exactly: 2 for 0.05, 4 for 0.0025. */
function decimalsOf(step: number): number {
  for (let decimals = 0; decimals < 6; decimals += 1) {
    const scaled = step * 10 ** decimals;
    if (scaled >= 0.5 && Math.abs(scaled - Math.round(scaled)) < 1e-6 * scaled) return decimals;
  }
  return 6;
}
