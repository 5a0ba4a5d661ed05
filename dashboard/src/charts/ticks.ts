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

/** Even ticks of a linear axis at 1, 2 or 5 of a decade, at most `most` of them. */
export function linearSplits(low: number, high: number, most: number): number[] {
  if (!(high > low) || !Number.isFinite(high - low)) return Number.isFinite(low) ? [low] : [];
  return evenTicks(low, high, (high - low) / Math.max(1, most));
}

/** Where ticks stand within a decade, densest first, with the least distance between two of them in decades. */
const IN_DECADE = [
  { heads: [1, 2, 5], gap: Math.log10(2) },
  { heads: [1, 3], gap: Math.log10(3) },
  { heads: [1], gap: 1 },
];

/** Ticks of a log axis: 1-2-5, 1-3 or whole decades, the densest of which at most `most` stand side by side. */
export function logSplits(low: number, high: number, most: number): number[] {
  const decades = Math.log10(high / low);
  if (!(low > 0) || !(decades > 0) || !Number.isFinite(decades)) return [];
  const least = decades / Math.max(1, most);
  const fitting = IN_DECADE.find(({ gap }) => gap >= least);
  const ticks = fitting
    ? decadeTicks(low, high, 1, fitting.heads)
    : decadeTicks(low, high, Math.ceil(least), [1]);
  // Less than a decade may hold none of them: then even distances, the closest of which are at the top.
  return ticks.length >= 2 ? ticks : evenTicks(low, high, high * (1 - 10 ** -least));
}

function decadeTicks(low: number, high: number, every: number, heads: readonly number[]): number[] {
  const ticks: number[] = [];
  for (let power = Math.floor(Math.log10(low) / every) * every; power <= Math.log10(high); power += every) {
    // Written and read again, so that 3e-3 is exactly that.
    ticks.push(...heads.map((head) => Number(`${head}e${power}`)));
  }
  return ticks.filter((tick) => tick >= low && tick <= high);
}

function evenTicks(low: number, high: number, least: number): number[] {
  const power = Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((head) => head * 10 ** power).find((size) => size >= least) ?? least;
  const first = Math.ceil(low / step);
  const count = Math.max(0, Math.floor(high / step) - first + 1);
  return Array.from({ length: count }, (_, index) => Number(((first + index) * step).toPrecision(6)));
}

/** A tick of a log axis in its shortest form: 0.3, 0.03, 3e−3, 20, 1e4. */
export function logLabel(value: number | null): string {
  if (value === null) return "";
  if (value >= 0.01 && value < 1e4) return formatFixed(value, decimalsOf(value));
  const digits = [0, 1, 2].find((some) => Number(value.toExponential(some)) === value) ?? 3;
  return formatExponent(value, digits);
}
