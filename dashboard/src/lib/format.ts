/** Numbers as the page writes them (design section 6): 12,480 · 0.1005 · 1.0e−3 · −0.33 · 38 % · 58 MiB · 3 ms. */

const MINUS = "\u2212";
export const NONE = "\u2014";

function trueMinus(text: string): string {
  return text.replaceAll("-", MINUS);
}

function special(value: number): string | null {
  if (Number.isNaN(value)) return "NaN";
  if (value === Number.POSITIVE_INFINITY) return "∞";
  if (value === Number.NEGATIVE_INFINITY) return `${MINUS}∞`;
  return null;
}

const writers = new Map<number, Intl.NumberFormat>();

/** Writes numbers with so many decimals. It is kept: to make one takes longer than a whole row of a table. */
function writerOf(decimals: number): Intl.NumberFormat {
  let writer = writers.get(decimals);
  if (writer === undefined) {
    writer = new Intl.NumberFormat("en-US", {
      minimumFractionDigits: decimals,
      maximumFractionDigits: decimals,
    });
    writers.set(decimals, writer);
  }
  return writer;
}

/** A count or a step: 12,480. */
export function formatCount(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  return special(value) ?? trueMinus(writerOf(0).format(Math.round(value)));
}

/** A mantissa and an exponent: 1.0e−3; without the exponent where that is 0. */
export function formatExponent(value: number, digits = 1): string {
  return trueMinus(value.toExponential(digits).replace("e+", "e").replace(/e0$/, ""));
}

/** A measured value with four significant figures: 0.1005, 12.48, 1.0e−3 where it is very small or large. */
export function formatValue(value: number | null | undefined, significant = 4): string {
  if (value === null || value === undefined) return NONE;
  const odd = special(value);
  if (odd !== null) return odd;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e7) return formatExponent(value, Math.max(1, significant - 2));
  const whole = Math.floor(Math.log10(size)) + 1;
  const decimals = Math.max(0, Math.min(6, significant - Math.max(whole, 0)));
  return trueMinus(writerOf(decimals).format(value));
}

/** A fixed number of decimals, for columns that stand under each other. */
export function formatFixed(value: number | null | undefined, decimals: number): string {
  if (value === null || value === undefined) return NONE;
  const odd = special(value);
  if (odd !== null) return odd;
  return trueMinus(writerOf(decimals).format(value));
}

/** A learning rate: 1.0e−3, and 0.1 where that is shorter. */
export function formatRate(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  const odd = special(value);
  if (odd !== null) return odd;
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 0.01 && size < 1e5 ? trueMinus(String(Number(value.toPrecision(3)))) : formatExponent(value);
}

/** What the losses of a batch are written in, so that two figures under a tile tell them apart. */
export interface TileScale {
  factor: number;
  /** As the legend says it: "×10⁻³", or nothing for plain values. */
  unit: string;
}

/** Plain values, thousandths or millionths, by the largest loss of the batch. */
export function tileScale(largest: number): TileScale {
  if (!(largest > 0) || largest >= 0.0995) return { factor: 1, unit: "" };
  return largest < 1e-4 ? { factor: 1e6, unit: "×10⁻⁶" } : { factor: 1e3, unit: "×10⁻³" };
}

/** A loss under an image tile, in its batch's scale: .08, 1.2, 34. */
export function formatTile(value: number | null | undefined, factor = 1): string {
  if (value === null || value === undefined) return "";
  const odd = special(value);
  if (odd !== null) return odd;
  const scaled = value * factor;
  const size = Math.abs(scaled);
  if (size >= 9.95) return trueMinus(scaled.toFixed(0));
  if (size >= 0.995) return trueMinus(scaled.toFixed(1));
  return trueMinus(scaled.toFixed(2).replace("0.", "."));
}

/** A share: 38 %. */
export function formatPercent(share: number | null | undefined, decimals = 0): string {
  if (share === null || share === undefined) return NONE;
  return `${formatFixed(share * 100, decimals)} %`;
}

/** A speed: 212 steps/s, 0.42 steps/s. */
export function formatSpeed(stepsPerS: number | null | undefined): string {
  if (stepsPerS === null || stepsPerS === undefined) return NONE;
  const decimals = stepsPerS >= 10 ? 0 : stepsPerS >= 1 ? 1 : 2;
  return `${formatFixed(stepsPerS, decimals)} steps/s`;
}

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];

/** A size in memory: 512 B, 58 MiB, 1.4 GiB. */
export function formatBytes(bytes: number): string {
  const power = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), SIZES.length - 1);
  const size = bytes / 1024 ** power;
  return `${formatFixed(size, power > 0 && size < 10 ? 1 : 0)} ${SIZES[power]}`;
}

/** A time that something took: 3 ms, 8.2 s, 12 min, 3 h 20 min. */
export function formatDuration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 0.0005) return "0 ms";
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 99.95) return `${formatFixed(seconds, 1)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 100) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** An age in one unit: now, 12 s, 14 m, 3 h, 2 d. */
export function formatAge(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 5) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** A time of day: 14:32:08. */
export function formatTime(secondsSince1970: number): string {
  const time = new Date(secondsSince1970 * 1000);
  return [time.getHours(), time.getMinutes(), time.getSeconds()]
    .map((part) => String(part).padStart(2, "0"))
    .join(":");
}

/** "1 hit", "2 hits". */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}
