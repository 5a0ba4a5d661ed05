/** An axis: from values to places and back, on a linear or a log scale. */
import { linearSplits, logLabels, logSplits, sameDecimals } from "./ticks";

export interface Axis {
  /** Place of a value between 0 and 1; values that a log scale has no place for lie at its start. */
  unit: (value: number) => number;
  /** The value at a place. */
  value: (unit: number) => number;
  low: number;
  high: number;
  ticks: readonly { value: number; label: string }[];
}

/** Room around the data, as a share of its span. */
const PADDING = 0.05;

/** The axis that holds all finite values, with some room around them and at most `most` ticks. */
export function axisOf(values: ArrayLike<number>, logarithmic: boolean, most: number): Axis {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index] as number;
    if (!Number.isFinite(value) || (logarithmic && value <= 0)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return logarithmic ? logAxis(0.1, 1, most) : linearAxis(0, 1, most);
  return logarithmic ? padLog(low, high, most) : padLinear(low, high, most);
}

function padLinear(low: number, high: number, most: number): Axis {
  const room = (high - low) * PADDING || Math.abs(high) * PADDING || 0.5;
  // Where no value is negative the axis starts at 0 when that is near.
  const start = low >= 0 && low < (high - low) * 0.25 ? -room * 0.4 : low - room;
  return linearAxis(start, high + room, most);
}

function padLog(low: number, high: number, most: number): Axis {
  const room = Math.max(Math.log10(high / low) * PADDING, 0.1);
  return logAxis(low / 10 ** room, high * 10 ** room, most);
}

/** An axis from `low` to `high` exactly. */
export function linearAxis(low: number, high: number, most: number): Axis {
  const splits = linearSplits(low, high, most);
  const labels = sameDecimals(splits);
  return {
    low,
    high,
    unit: (value) => (value - low) / (high - low),
    value: (unit) => low + unit * (high - low),
    ticks: splits.map((value, index) => ({ value, label: labels[index] as string })),
  };
}

export function logAxis(low: number, high: number, most: number): Axis {
  const [from, to] = [Math.log10(low), Math.log10(high)];
  const splits = logSplits(low, high, most);
  const labels = logLabels(splits);
  return {
    low,
    high,
    unit: (value) => (value > 0 ? (Math.log10(value) - from) / (to - from) : 0),
    value: (unit) => 10 ** (from + unit * (to - from)),
    ticks: splits.map((value, index) => ({ value, label: labels[index] as string })),
  };
}
