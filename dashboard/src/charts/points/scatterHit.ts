/** Points of a scatter: where they lie, which one is under the pointer, which one an arrow leads to. */
import { type Axis, axisOf } from "@/charts/axis";

export interface ScatterPoints {
  x: ArrayLike<number>;
  y: ArrayLike<number>;
}

export interface ScatterFrame {
  width: number;
  height: number;
  left: number;
  top: number;
  right: number;
  bottom: number;
  xAxis: Axis;
  yAxis: Axis;
}

const MARGIN = { right: 12, top: 8, bottom: 34 };
/** Room for the turned label and the gap beside the numbers. */
const LABEL_ROOM = 24;
/** Small marks have a hit area of 24 px. */
const REACH = 12;

/** The frame of a chart of this size. */
export function scatterFrame(
  points: ScatterPoints,
  size: { width: number; height: number },
  logX: boolean,
  logY: boolean,
): ScatterFrame {
  const { top } = MARGIN;
  const yAxis = axisOf(points.y, logY, (size.height - top - MARGIN.bottom) / 44);
  const longest = yAxis.ticks.reduce((most, { label }) => Math.max(most, label.length), 2);
  const left = Math.round(LABEL_ROOM + longest * 6.3);
  const right = Math.max(size.width - MARGIN.right, left + 1);
  const bottom = Math.max(size.height - MARGIN.bottom, top + 1);
  return {
    ...size,
    left,
    top,
    right,
    bottom,
    xAxis: axisOf(points.x, logX, (right - left) / 48),
    yAxis,
  };
}

export function positionOf(
  frame: ScatterFrame,
  { x, y }: ScatterPoints,
  index: number,
): readonly [x: number, y: number] | null {
  const [valueX, valueY] = [x[index] as number, y[index] as number];
  if (!Number.isFinite(valueX) || !Number.isFinite(valueY)) return null;
  const { left, right, top, bottom, xAxis, yAxis } = frame;
  const clamp = (unit: number) => Math.min(Math.max(unit, 0), 1);
  return [
    left + clamp(xAxis.unit(valueX)) * (right - left),
    bottom - clamp(yAxis.unit(valueY)) * (bottom - top),
  ];
}

/** Index of the nearest point within reach; null where there is none. */
export function pointUnder(frame: ScatterFrame, points: ScatterPoints, x: number, y: number): number | null {
  let best: number | null = null;
  let nearest = REACH * REACH;
  for (let index = 0; index < points.x.length; index += 1) {
    const position = positionOf(frame, points, index);
    if (position === null) continue;
    const distance = (position[0] - x) ** 2 + (position[1] - y) ** 2;
    if (distance < nearest) {
      nearest = distance;
      best = index;
    }
  }
  return best;
}

/** The next point in the direction of an arrow: left and right by x, up and down by y; null for other keys. */
export function pointAfter(key: string, points: ScatterPoints, from: number | null): number | null {
  const horizontal = key === "ArrowLeft" || key === "ArrowRight";
  if (!horizontal && key !== "ArrowUp" && key !== "ArrowDown") return null;
  const values = horizontal ? points.x : points.y;
  const forwards = key === "ArrowRight" || key === "ArrowUp";
  const order = Array.from({ length: values.length }, (_, index) => index)
    .filter((index) => Number.isFinite(points.x[index]) && Number.isFinite(points.y[index]))
    .sort((a, b) => (values[a] as number) - (values[b] as number) || a - b);
  if (!order.length) return null;
  if (from === null) return order[0] ?? null;
  const at = order.indexOf(from);
  return order[Math.min(Math.max(at + (forwards ? 1 : -1), 0), order.length - 1)] ?? null;
}
