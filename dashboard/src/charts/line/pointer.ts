/** Cursor and selection, on a canvas of their own over the lines, so that the lines rest while the pointer moves. */
import type uPlot from "uplot";
import { faded } from "@/charts/colors/faded";
import type { DrawnLine } from "./columns";
import { across, drawDot, type Pen, penOf, segment, up } from "./decorations";
import type { Token } from "./LinePlot";
import { isDrawable, measured, type Pointed, pointAt } from "./lines";

export interface PointerState {
  /** Point under the cursor of this chart. */
  cursor: Pointed | null;
  /** x of the cursor of another chart. */
  syncedX: number | null;
  /** Whether the cursor means one line, which is drawn over the others. */
  byLine: boolean;
  /** The range that a drag has covered so far, in CSS pixels of the canvas. */
  selection: readonly [from: number, to: number] | null;
  /** Where the cursor of this chart is, in words below the lines. */
  text?: string;
}

export function drawPointer(
  canvas: HTMLCanvasElement,
  plot: uPlot,
  token: Token,
  drawn: readonly DrawnLine[],
  logY: boolean,
  { cursor, syncedX, byLine, selection, text }: PointerState,
): void {
  const context = canvas.getContext("2d");
  if (context === null) return;
  const { width, height } = plot.ctx.canvas;
  // Setting a size costs the canvas its memory anew; one that fits is only cleared.
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  context.clearRect(0, 0, width, height);
  const pen = penOf(plot, token, context);
  if (selection !== null) drawSelection(pen, selection);
  const x = cursor?.x ?? syncedX;
  const at = x === null ? null : across(pen, x);
  if (x === null || at === null) return;
  context.strokeStyle = token(byLine ? "line3" : "t3");
  context.lineWidth = pen.ratio;
  segment(context, at + pen.ratio / 2, pen.top, at + pen.ratio / 2, pen.bottom);
  if (byLine && cursor !== null) drawPointedLine(pen, drawn, cursor, logY);
  else {
    const present = drawn.filter(({ line }) => !line.abandoned);
    if (present.length === 1 && present[0]) drawMeasured(pen, present[0], x, logY);
    else for (const one of present) drawValue(pen, one, x, at, logY);
  }
  if (text !== undefined) drawCursorText(pen, text, at);
}

const TEXT_HEIGHT = 16;

/** Over the labels of the axis, which it stands for as long as the cursor is there. */
function drawCursorText({ context, ratio, left, right, bottom, token }: Pen, text: string, at: number): void {
  context.font = `${11 * ratio}px Inter, system-ui, sans-serif`;
  const width = context.measureText(text).width + 12 * ratio;
  const start = Math.min(Math.max(at - width / 2, left), Math.max(left, right - width));
  context.fillStyle = token("text");
  context.beginPath();
  context.roundRect(start, bottom + 2 * ratio, width, TEXT_HEIGHT * ratio, 4 * ratio);
  context.fill();
  context.fillStyle = token("surface");
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(text, start + width / 2, bottom + (2 + TEXT_HEIGHT / 2) * ratio);
}

function drawSelection(
  { context, ratio, top, bottom, token }: Pen,
  [from, to]: readonly [number, number],
): void {
  context.fillStyle = faded(token("accent"), 14);
  context.fillRect(Math.min(from, to) * ratio, top, Math.abs(to - from) * ratio, bottom - top);
}

/** The line that the cursor is on once more, over all others. */
function drawPointedLine(pen: Pen, drawn: readonly DrawnLine[], cursor: Pointed, logY: boolean): void {
  const { context, ratio, token, left, right, top, bottom } = pen;
  const one = drawn.find(({ line }) => line.id === cursor.id);
  if (one === undefined) return;
  const colour = one.line.faint ? token("text") : one.line.colour;
  context.save();
  context.beginPath();
  context.rect(left, top, right - left, bottom - top);
  context.clip();
  context.strokeStyle = colour;
  context.lineWidth = 2.5 * ratio;
  context.lineJoin = "round";
  trace(pen, one);
  context.stroke();
  context.restore();
  const value = one.line.y[cursor.index] as number;
  const x = across(pen, cursor.x);
  if (x !== null && isDrawable(value, logY)) drawDot(pen, colour, x, up(pen, value));
}

function trace({ context, plot }: Pen, { x, y }: DrawnLine): void {
  context.beginPath();
  let joined = false;
  y.forEach((value, index) => {
    if (value === null) {
      joined = false;
      return;
    }
    const at = plot.valToPos(x[index] as number, "x", true);
    if (joined) context.lineTo(at, plot.valToPos(value, "y", true));
    else context.moveTo(at, plot.valToPos(value, "y", true));
    joined = true;
  });
}

/** A ring on the measured point of the only line. */
function drawMeasured(pen: Pen, { line }: DrawnLine, x: number, logY: boolean): void {
  const index = pointAt(line, x);
  const value = index === null ? Number.NaN : (measured(line)[index] as number);
  const at = index === null ? null : across(pen, line.x[index] as number);
  if (at === null || !isDrawable(value, logY)) return;
  const { context, ratio, token } = pen;
  context.beginPath();
  context.arc(at, up(pen, value), 3.5 * ratio, 0, 2 * Math.PI);
  context.fillStyle = token("surface");
  context.strokeStyle = token("text");
  context.lineWidth = 2 * ratio;
  context.fill();
  context.stroke();
}

/** A dot on each line at the cursor. */
function drawValue(pen: Pen, { line }: DrawnLine, x: number, at: number, logY: boolean): void {
  const index = pointAt(line, x);
  const value = index === null ? Number.NaN : (line.y[index] as number);
  if (isDrawable(value, logY)) drawDot(pen, line.colour, at, up(pen, value));
}
