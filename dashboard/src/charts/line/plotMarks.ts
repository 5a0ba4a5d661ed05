/** What stands above and beside the lines of a chart: diamonds of hits, the last value, gaps, the cursor. */
import type uPlot from "uplot";
import type { PlotColours } from "@/charts/colors/plotColors";
import type { Points } from "./trend";

/** A breakpoint hit. */
export interface Mark {
  step: number;
  /** Number of the breakpoint. */
  text: string;
  /** Whether the run stands here now: filled, with its number in front. */
  now: boolean;
}

export interface Overlay {
  points: Points;
  /** Indices of the points that are not finite. */
  broken: readonly number[];
  marks: readonly Mark[];
  lastLabel: string;
  cursor: number | null;
}

interface Pen {
  context: CanvasRenderingContext2D;
  plot: uPlot;
  colours: PlotColours;
  /** Device pixels per CSS pixel. */
  ratio: number;
  left: number;
  right: number;
  top: number;
  bottom: number;
}

const DIAMOND = 5;
const FAMILY = "Inter, system-ui, sans-serif";

/** Draws what lies below the lines. */
export function drawUnderlay(plot: uPlot, colours: PlotColours, { marks }: Overlay): void {
  const pen = penOf(plot, colours);
  pen.context.save();
  for (const { step } of marks) {
    const x = across(pen, step);
    if (x !== null) drawDotted(pen, x);
  }
  pen.context.restore();
}

/** Draws what lies above the lines. */
export function drawOverlay(plot: uPlot, colours: PlotColours, overlay: Overlay): void {
  const pen = penOf(plot, colours);
  pen.context.save();
  drawBroken(pen, overlay);
  drawMarks(pen, overlay.marks);
  drawLast(pen, overlay);
  drawCursor(pen, overlay);
  pen.context.restore();
}

function penOf(plot: uPlot, colours: PlotColours): Pen {
  const { left, top, width, height } = plot.bbox;
  const [right, bottom] = [left + width, top + height];
  return { context: plot.ctx, plot, colours, ratio: devicePixelRatio, left, right, top, bottom };
}

function across({ plot, left, right }: Pen, step: number): number | null {
  const x = plot.valToPos(step, "x", true);
  return x >= left - 1 && x <= right + 1 ? Math.round(x) : null;
}

/** A gap in the line gets a cross on the axis, one per pixel column at most. */
function drawBroken(pen: Pen, { points, broken }: Overlay): void {
  const { context, ratio, bottom, colours } = pen;
  context.strokeStyle = colours.bad;
  context.lineWidth = 1.5 * ratio;
  const arm = 3 * ratio;
  const y = bottom - arm - ratio;
  let drawnAt = Number.NEGATIVE_INFINITY;
  context.beginPath();
  for (const index of broken) {
    const x = across(pen, points.step[index] as number);
    if (x === null || x - drawnAt < 2 * arm) continue;
    drawnAt = x;
    context.moveTo(x - arm, y - arm);
    context.lineTo(x + arm, y + arm);
    context.moveTo(x - arm, y + arm);
    context.lineTo(x + arm, y - arm);
  }
  context.stroke();
}

function drawMarks(pen: Pen, marks: readonly Mark[]): void {
  let labelledTo = Number.NEGATIVE_INFINITY;
  for (const mark of marks) {
    const x = across(pen, mark.step);
    if (x === null) continue;
    drawDiamond(pen, x, mark.now);
    if (x - labelledTo > 14 * pen.ratio || mark.now) {
      drawMarkText(pen, x, mark);
      labelledTo = x;
    }
  }
}

function drawDotted({ context, ratio, top, bottom, colours }: Pen, x: number): void {
  context.strokeStyle = colours.warn;
  context.lineWidth = ratio;
  context.setLineDash([2 * ratio, 3 * ratio]);
  context.beginPath();
  context.moveTo(x + ratio / 2, top - 8 * ratio);
  context.lineTo(x + ratio / 2, bottom);
  context.stroke();
  context.setLineDash([]);
}

function drawDiamond({ context, ratio, top, colours }: Pen, x: number, filled: boolean): void {
  const y = top - 13 * ratio;
  const arm = DIAMOND * ratio;
  context.beginPath();
  context.moveTo(x, y - arm);
  context.lineTo(x + arm, y);
  context.lineTo(x, y + arm);
  context.lineTo(x - arm, y);
  context.closePath();
  context.lineWidth = 1.5 * ratio;
  context.strokeStyle = colours.warn;
  context.fillStyle = filled ? colours.warn : colours.surface;
  context.fill();
  context.stroke();
}

function drawMarkText({ context, ratio, top, colours }: Pen, x: number, { text, now }: Mark): void {
  context.font = `${now ? 600 : 400} ${11 * ratio}px ${FAMILY}`;
  context.fillStyle = now ? colours.warnText : colours.t3;
  context.textBaseline = "middle";
  context.textAlign = now ? "right" : "left";
  context.fillText(text, x + (now ? -12 : 9) * ratio, top - 13 * ratio);
}

/** The last value as a dot with its number beside it, on the side where there is room. */
function drawLast(pen: Pen, { points, lastLabel, marks }: Overlay): void {
  const { context, ratio, plot, colours, top, bottom } = pen;
  const last = points.value.length - 1;
  const value = points.value[last];
  const x = last < 0 ? null : across(pen, points.step[last] as number);
  if (x === null || value === undefined || !Number.isFinite(value)) return;
  const y = Math.min(Math.max(plot.valToPos(value, "y", true), top), bottom);
  if (marks.some(({ now, step }) => now && step === points.step[last])) drawLastLeg(pen, points, x, y);
  context.beginPath();
  context.arc(x, y, 3.5 * ratio, 0, 2 * Math.PI);
  context.fillStyle = colours.line;
  context.strokeStyle = colours.surface;
  context.lineWidth = 1.5 * ratio;
  context.fill();
  context.stroke();
  drawLastLabel(pen, lastLabel, x, y);
}

/** The way to the point that stopped the run, at full strength. */
function drawLastLeg({ context, ratio, plot, colours }: Pen, points: Points, x: number, y: number): void {
  const before = points.value[points.value.length - 2];
  if (before === undefined || !Number.isFinite(before)) return;
  context.beginPath();
  context.moveTo(
    plot.valToPos(points.step[points.step.length - 2] as number, "x", true),
    plot.valToPos(before, "y", true),
  );
  context.lineTo(x, y);
  context.strokeStyle = colours.line;
  context.lineWidth = 2 * ratio;
  context.stroke();
}

function drawLastLabel(pen: Pen, label: string, x: number, y: number): void {
  const { context, ratio, colours, top, left } = pen;
  context.font = `600 ${11 * ratio}px ${FAMILY}`;
  context.textBaseline = "middle";
  const width = context.measureText(label).width + 10 * ratio;
  const fits = x - width > left;
  context.textAlign = fits ? "right" : "left";
  const crest = crestBetween(pen, fits ? x - width : x, fits ? x : x + width);
  // A point that towers over its neighbours has room beside it; otherwise the label stands above the line.
  const beside = y < crest - 12 * ratio;
  const textY = beside
    ? y + (y - top > 12 * ratio ? 0 : 4 * ratio)
    : Math.max(crest - 10 * ratio, top + 6 * ratio);
  const textX = x + (fits ? -1 : 1) * (beside ? 10 : 0) * ratio;
  context.lineWidth = 3 * ratio;
  context.strokeStyle = colours.surface;
  context.strokeText(label, textX, textY);
  context.fillStyle = colours.text;
  context.fillText(label, textX, textY);
}

/** Highest place the lines reach between two places of the chart, the last point left out. */
function crestBetween({ plot, bottom }: Pen, from: number, to: number): number {
  const [steps, , , raw, smoothed] = plot.data;
  let crest = bottom;
  for (let index = (steps?.length ?? 0) - 2; index >= 0; index -= 1) {
    const x = plot.valToPos(steps?.[index] as number, "x", true);
    if (x < from) break;
    if (x > to) continue;
    for (const value of [raw?.[index], smoothed?.[index]]) {
      if (value != null) crest = Math.min(crest, plot.valToPos(value, "y", true));
    }
  }
  return crest;
}

function drawCursor(pen: Pen, { points, cursor }: Overlay): void {
  const { context, ratio, plot, colours, top, bottom } = pen;
  const x = cursor === null ? null : across(pen, points.step[cursor] as number);
  if (cursor === null || x === null) return;
  context.strokeStyle = colours.t3;
  context.lineWidth = ratio;
  context.beginPath();
  context.moveTo(x + ratio / 2, top);
  context.lineTo(x + ratio / 2, bottom);
  context.stroke();
  const value = points.value[cursor] as number;
  if (!Number.isFinite(value)) return;
  context.beginPath();
  context.arc(x, plot.valToPos(value, "y", true), 3.5 * ratio, 0, 2 * Math.PI);
  context.fillStyle = colours.surface;
  context.strokeStyle = colours.text;
  context.lineWidth = 2 * ratio;
  context.fill();
  context.stroke();
}
