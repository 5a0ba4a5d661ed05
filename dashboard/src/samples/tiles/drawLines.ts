/** Draws the curves of one sample: a band from the smallest to the largest value of each interval. */
import { type BatchOut, fromWire } from "@/api/types";
import type { Rectangle } from "@/charts/tiles/tileLayout";

export type Lines = NonNullable<BatchOut["lines"]>;

/** The curves of one sample as numbers, channel after channel. */
export interface Curve {
  low: Float64Array;
  high: Float64Array;
  channels: number;
  points: number;
}

export function curveOf(lines: Lines, row: number): Curve {
  const numbers = (wire: Lines["low"][number] | undefined) =>
    Float64Array.from(wire ?? [], (value) => fromWire(value) ?? Number.NaN);
  return {
    low: numbers(lines.low[row]),
    high: numbers(lines.high[row]),
    channels: lines.channels,
    points: lines.points,
  };
}

/** Smallest and largest value of some curves; 0 to 1 where none is finite, and never one value. */
export function rangeOf(curves: readonly Curve[]): [low: number, high: number] {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const curve of curves) {
    for (const value of curve.low) if (value < low) low = value;
    for (const value of curve.high) if (value > high) high = value;
  }
  if (low > high) return [0, 1];
  return low < high ? [low, high] : [low - 0.5, high + 0.5];
}

/** The range of sounds lies around silence. */
export function symmetric([low, high]: [number, number]): [number, number] {
  const largest = Math.max(Math.abs(low), Math.abs(high));
  return [-largest, largest];
}

export interface LinePen {
  /** Colours of the channels. */
  series: readonly string[];
  nan: string;
  range: readonly [low: number, high: number];
}

export function drawCurve(
  context: CanvasRenderingContext2D,
  curve: Curve,
  at: Rectangle,
  { series, nan, range: [low, high] }: LinePen,
): void {
  const { channels, points } = curve;
  const padding = Math.min(2, at.height / 8);
  const scale = (at.height - 2 * padding) / (high - low);
  const y = (value: number) => at.y + at.height - padding - (value - low) * scale;
  const x = (point: number) => at.x + ((point + 0.5) * at.width) / points;
  for (let channel = 0; channel < channels; channel += 1) {
    context.strokeStyle = series[channel] ?? "";
    context.lineWidth = 1;
    context.beginPath();
    let isDrawing = false;
    for (let point = 0; point < points; point += 1) {
      const [bottom, top] = [curve.low[channel * points + point], curve.high[channel * points + point]];
      if (bottom === undefined || top === undefined || Number.isNaN(bottom) || Number.isNaN(top)) {
        isDrawing = false;
        continue;
      }
      // From the lower end to the upper one of each interval: dense intervals look like a band.
      if (isDrawing) context.lineTo(x(point), y(bottom));
      else context.moveTo(x(point), y(bottom) + 0.5);
      context.lineTo(x(point), isDrawing && top === bottom ? y(top) : y(top) - 0.5);
      isDrawing = true;
    }
    context.stroke();
  }
  context.fillStyle = nan;
  const width = Math.max(1, at.width / points);
  for (const point of brokenPoints(curve))
    context.fillRect(at.x + (point * at.width) / points, at.y, width, at.height);
}

/** Intervals in which a value of any channel is not finite. */
export function brokenPoints({ low, channels, points }: Curve): number[] {
  const broken = Array.from({ length: points }, (_, point) => point);
  return broken.filter((point) => {
    for (let channel = 0; channel < channels; channel += 1)
      if (Number.isNaN(low[channel * points + point])) return true;
    return false;
  });
}
