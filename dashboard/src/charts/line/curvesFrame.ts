/** Where curves of many runs lie on their canvas, and which of them a pointer means. */
import type { Axis } from "@/charts/axis";
import type { ChartCurve } from "./CurvesChart";
import { lowerBound } from "./decimate";
import { labelRoom } from "./lines";

/** Room above the values and below them, in pixels. */
export const TOP = 8;
export const BOTTOM = 20;
const LEFT = 44;
/** Width of a digit of the axes, in pixels. */
const LETTER = 6.6;
/** A pointer this near to a curve means it. */
const REACH = 24;

export interface CurveFrame {
  width: number;
  height: number;
  left: number;
  /** Room for labels at the ends of curves. */
  right: number;
  logY: boolean;
  xAxis: Axis;
  yAxis: Axis;
  xText: (value: number, span: number) => string;
}

/** A point of a curve under the cursor. */
export interface Pointed {
  id: string;
  index: number;
  x: number;
  y: number;
  /** Length of the x axis, which decides its unit. */
  span: number;
}

/** Room for the labels of the values at the left, and of the curves at the right. */
export function roomOf(
  curves: readonly ChartCurve[],
  { width }: { width: number },
  values: readonly { label: string }[],
): Pick<CurveFrame, "left" | "right"> {
  const named = curves.filter(({ faint }) => !faint);
  const right = named.length > 0 ? Math.min(labelRoom(named) + 8, width / 3) : 12;
  const longest = Math.max(0, ...values.map(({ label }) => label.length));
  return { left: Math.max(LEFT, Math.ceil(longest * LETTER) + 10), right };
}

export const across = (frame: CurveFrame, x: number) =>
  frame.left + frame.xAxis.unit(x) * (frame.width - frame.left - frame.right);
export const up = (frame: CurveFrame, y: number) =>
  frame.height - BOTTOM - frame.yAxis.unit(y) * (frame.height - TOP - BOTTOM);
export const canBeDrawn = ({ logY }: CurveFrame, y: number) => Number.isFinite(y) && !(logY && y <= 0);

/** The point of the curve nearest to the pointer; null where none is near. */
export function pointedAt(
  frame: CurveFrame,
  curves: readonly ChartCurve[],
  x: number,
  y: number,
): Pointed | null {
  const share = (x - frame.left) / (frame.width - frame.left - frame.right);
  if (share < -0.02 || share > 1.02) return null;
  const wanted = frame.xAxis.value(share);
  let best: Pointed | null = null;
  let nearest = REACH;
  for (const { id, step, value, faint } of curves) {
    const index = nearestIndex(step, wanted);
    if (index < 0) continue;
    const at = value[index] as number;
    if (!canBeDrawn(frame, at)) continue;
    const beside = Math.max(0, Math.abs(across(frame, step[index] as number) - x) - 4);
    // Of two at the same distance the one with a colour is meant.
    const distance = Math.hypot(up(frame, at) - y, beside) + (faint ? 2 : 0);
    if (distance >= nearest) continue;
    nearest = distance;
    best = { id, index, x: step[index] as number, y: at, span: frame.xAxis.high - frame.xAxis.low };
  }
  return best;
}

function nearestIndex(step: ArrayLike<number>, wanted: number): number {
  const after = lowerBound(step, step.length, wanted);
  if (after === 0) return step.length > 0 ? 0 : -1;
  if (after === step.length) return after - 1;
  const before = after - 1;
  return wanted - (step[before] as number) <= (step[after] as number) - wanted ? before : after;
}
