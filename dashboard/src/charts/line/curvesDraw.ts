/** How curves of many runs are drawn. */

import { faded } from "@/charts/colors/plotColors";
import type { ChartCurve } from "./CurvesChart";
import { across, BOTTOM, type CurveFrame, canBeDrawn, type Pointed, TOP, up } from "./curvesFrame";
import { endLabel, spread } from "./lines";

const FONT = "11px Inter, system-ui, sans-serif";
const LABEL_HEIGHT = 13;

type Read = (name: string) => string;

/** A canvas made ready in device pixels, and the theme's colours. */
function prepared(
  canvas: HTMLCanvasElement,
  { width, height }: CurveFrame,
): { context: CanvasRenderingContext2D; read: Read } | null {
  const context = canvas.getContext("2d");
  if (context === null) return null;
  const ratio = devicePixelRatio;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  // Setting a size clears the canvas and costs its memory anew; one that fits is only wiped.
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const style = getComputedStyle(canvas);
  return { context, read: (name) => style.getPropertyValue(`--${name}`).trim() };
}

export function drawCurves(
  canvas: HTMLCanvasElement,
  frame: CurveFrame,
  curves: readonly ChartCurve[],
): void {
  const ready = prepared(canvas, frame);
  if (ready === null) return;
  const { context, read } = ready;
  drawGrid(context, frame, read);
  context.save();
  context.beginPath();
  context.rect(frame.left, 0, frame.width - frame.left - frame.right + 4, frame.height - BOTTOM + 2);
  context.clip();
  for (const curve of curves) if (curve.faint) drawCurve(context, frame, curve, 1);
  for (const curve of curves) if (!curve.faint) drawBehind(context, frame, curve);
  for (const curve of curves) if (!curve.faint) drawCurve(context, frame, curve, 1.5);
  context.restore();
  for (const curve of curves) drawGaps(context, frame, read, curve);
  drawEnds(context, frame, read, curves);
}

/** Marks on the axis where a value is not a number: the line has a gap there. */
function drawGaps(context: CanvasRenderingContext2D, frame: CurveFrame, read: Read, curve: ChartCurve): void {
  context.fillStyle = read("bad-mark");
  let last = Number.NEGATIVE_INFINITY;
  for (let index = 0; index < curve.value.length; index += 1) {
    if (Number.isFinite(curve.value[index] as number)) continue;
    const x = Math.round(across(frame, curve.step[index] as number));
    if (x > last) context.fillRect(x, frame.height - BOTTOM - 4, 2, 5);
    last = x;
  }
}

function drawGrid(context: CanvasRenderingContext2D, frame: CurveFrame, read: Read): void {
  context.font = FONT;
  context.fillStyle = read("t3");
  context.strokeStyle = read("grid");
  context.lineWidth = 1;
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const { value, label } of frame.yAxis.ticks) {
    const y = Math.round(up(frame, value)) + 0.5;
    context.beginPath();
    context.moveTo(frame.left, y);
    context.lineTo(frame.width - frame.right, y);
    context.stroke();
    context.fillText(label, frame.left - 8, y);
  }
  context.textAlign = "center";
  context.textBaseline = "top";
  const span = frame.xAxis.high - frame.xAxis.low;
  for (const { value } of frame.xAxis.ticks)
    context.fillText(frame.xText(value, span), across(frame, value), frame.height - BOTTOM + 5);
}

/** Follows values with gaps where there is no place for one; `from` reads another column at the same places. */
function trace(
  context: CanvasRenderingContext2D,
  frame: CurveFrame,
  step: ArrayLike<number>,
  value: ArrayLike<number>,
): void {
  context.beginPath();
  let joined = false;
  for (let index = 0; index < step.length; index += 1) {
    const y = value[index] as number;
    if (!canBeDrawn(frame, y)) {
      joined = false;
      continue;
    }
    if (joined) context.lineTo(across(frame, step[index] as number), up(frame, y));
    else context.moveTo(across(frame, step[index] as number), up(frame, y));
    joined = true;
  }
}

function drawCurve(
  context: CanvasRenderingContext2D,
  frame: CurveFrame,
  { step, value, colour }: ChartCurve,
  width: number,
): void {
  context.strokeStyle = colour;
  context.fillStyle = colour;
  context.lineWidth = width;
  context.lineJoin = "round";
  trace(context, frame, step, value);
  context.stroke();
  // One point makes no line that could be seen.
  if (step.length === 1 && canBeDrawn(frame, value[0] as number)) dot(context, frame, step[0], value[0], 2.5);
}

function dot(
  context: CanvasRenderingContext2D,
  frame: CurveFrame,
  x: number | undefined,
  y: number | undefined,
  radius: number,
): void {
  context.beginPath();
  context.arc(across(frame, x as number), up(frame, y as number), radius, 0, 2 * Math.PI);
  context.fill();
}

/** The band between the lowest and the highest of each bucket, and the line that was measured. */
function drawBehind(context: CanvasRenderingContext2D, frame: CurveFrame, curve: ChartCurve): void {
  const { step, low, high, raw, colour } = curve;
  if (low !== undefined && high !== undefined) {
    context.fillStyle = faded(colour, 18);
    for (const [start, stop] of stretches(frame, low, high)) {
      context.beginPath();
      for (let index = start; index < stop; index += 1)
        context.lineTo(across(frame, step[index] as number), up(frame, high[index] as number));
      for (let index = stop - 1; index >= start; index -= 1)
        context.lineTo(across(frame, step[index] as number), up(frame, low[index] as number));
      context.fill();
    }
  } else if (raw !== undefined) {
    context.strokeStyle = faded(colour, 35);
    context.lineWidth = 1;
    trace(context, frame, step, raw);
    context.stroke();
  }
}

/** Where both edges of a band have a place, as ranges of indices. */
function stretches(frame: CurveFrame, low: ArrayLike<number>, high: ArrayLike<number>): [number, number][] {
  const ranges: [number, number][] = [];
  let start = -1;
  for (let index = 0; index <= low.length; index += 1) {
    const whole =
      index < low.length &&
      canBeDrawn(frame, low[index] as number) &&
      canBeDrawn(frame, high[index] as number);
    if (whole && start < 0) start = index;
    if (!whole && start >= 0) {
      ranges.push([start, index]);
      start = -1;
    }
  }
  return ranges;
}

/** Index of the last point of a curve that has a place. */
function lastSeen(frame: CurveFrame, { value }: ChartCurve): number {
  for (let index = value.length - 1; index >= 0; index -= 1)
    if (canBeDrawn(frame, value[index] as number)) return index;
  return -1;
}

function drawEnds(
  context: CanvasRenderingContext2D,
  frame: CurveFrame,
  read: Read,
  curves: readonly ChartCurve[],
): void {
  const ends = curves.flatMap((curve) => {
    const index = curve.faint ? -1 : lastSeen(frame, curve);
    if (index < 0) return [];
    return [
      { curve, x: across(frame, curve.step[index] as number), y: up(frame, curve.value[index] as number) },
    ];
  });
  const labelPositions = spread(
    ends.map(({ y }) => y),
    LABEL_HEIGHT,
    TOP,
    frame.height - BOTTOM,
  );
  context.font = `500 ${FONT}`;
  context.textAlign = "left";
  context.textBaseline = "middle";
  const edge = frame.width - frame.right;
  ends.forEach(({ curve, x, y }, index) => {
    const position = labelPositions[index] as number;
    drawLeader(context, curve.colour, [x, y], [edge + 4, position]);
    if (curve.live) drawLiveEnd(context, read, curve.colour, x, y);
    context.fillStyle = curve.textColour;
    context.fillText(endLabel(curve.label), edge + 7, position);
  });
}

type Position = readonly [x: number, y: number];

/** A dotted line from the end of a curve to its name, where they stand apart. */
function drawLeader(context: CanvasRenderingContext2D, colour: string, from: Position, to: Position): void {
  if (to[0] - from[0] < 8 && Math.abs(to[1] - from[1]) < 4) return;
  context.strokeStyle = faded(colour, 60);
  context.lineWidth = 1;
  context.setLineDash([1, 2]);
  context.beginPath();
  context.moveTo(from[0] + 3, from[1]);
  context.lineTo(Math.max(from[0] + 3, to[0] - 6), from[1]);
  context.lineTo(to[0], to[1]);
  context.stroke();
  context.setLineDash([]);
}

function drawLiveEnd(
  context: CanvasRenderingContext2D,
  read: Read,
  colour: string,
  x: number,
  y: number,
): void {
  context.beginPath();
  context.arc(x, y, 3.5, 0, 2 * Math.PI);
  context.fillStyle = colour;
  context.strokeStyle = read("surface");
  context.lineWidth = 1.5;
  context.fill();
  context.stroke();
}

/** The cursor, and the curve it is on once more, over all others. */
export function drawPointed(
  canvas: HTMLCanvasElement,
  frame: CurveFrame,
  curves: readonly ChartCurve[],
  pointed: Pointed | null,
): void {
  const ready = prepared(canvas, frame);
  const curve = pointed === null ? undefined : curves.find(({ id }) => id === pointed.id);
  if (ready === null || pointed === null || curve === undefined) return;
  const { context, read } = ready;
  const colour = curve.faint ? read("text") : curve.colour;
  const x = Math.round(across(frame, pointed.x)) + 0.5;
  context.strokeStyle = read("line3");
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x, TOP);
  context.lineTo(x, frame.height - BOTTOM);
  context.stroke();
  drawCurve(context, frame, { ...curve, colour }, 2.5);
  if (!canBeDrawn(frame, pointed.y)) return;
  drawLiveEnd(context, read, colour, across(frame, pointed.x), up(frame, pointed.y));
}
