/** What is drawn below and above the lines: thresholds, marks, gaps, names and values at the ends. */
import uPlot from "uplot";
import { faded } from "@/charts/colors/faded";
import { type Column, type DrawnLine, singlePoints } from "./columns";
import type { Frame, Token } from "./LinePlot";
import {
  endLabel,
  isDrawable,
  isNamed,
  type Mark,
  measured,
  type Range,
  spread,
  type Threshold,
} from "./lines";
import { groupText, nearGroups } from "./markGroups";

/** A context in device pixels with the edges of the lines' area. */
export interface Pen {
  context: CanvasRenderingContext2D;
  plot: uPlot;
  token: Token;
  /** Device pixels per CSS pixel. */
  ratio: number;
  left: number;
  right: number;
  top: number;
  bottom: number;
}

const FAMILY = "Inter, system-ui, sans-serif";
const DIAMOND = 5;
const LABEL_HEIGHT = 12;

export function penOf(plot: uPlot, token: Token, context = plot.ctx): Pen {
  const { left, top, width, height } = plot.bbox;
  return { context, plot, token, ratio: uPlot.pxRatio, left, right: left + width, top, bottom: top + height };
}

/** Device pixels of a value; of x null outside of the lines. */
export function across({ plot, left, right }: Pen, x: number): number | null {
  const at = plot.valToPos(x, "x", true);
  return at >= left - 1 && at <= right + 1 ? Math.round(at) : null;
}
export const up = ({ plot }: Pen, y: number) => plot.valToPos(y, "y", true);

/** Below the lines: thresholds and the stems of marks. */
export function drawUnderlay(plot: uPlot, token: Token, _: readonly DrawnLine[], frame: Frame): void {
  const pen = penOf(plot, token);
  pen.context.save();
  for (const { x } of frame.marks ?? []) {
    const at = across(pen, x);
    if (at !== null) drawStem(pen, at);
  }
  drawThresholds(pen, frame.thresholds);
  pen.context.restore();
}

/** Above the lines: gaps, single points, marks, ends. */
export function drawDecorations(plot: uPlot, token: Token, drawn: readonly DrawnLine[], frame: Frame): void {
  const pen = penOf(plot, token);
  pen.context.save();
  if (frame.gapMarks) for (const one of drawn) if (!one.line.abandoned) drawGaps(pen, one);
  for (const one of drawn) drawSinglePoints(pen, one);
  if (frame.limits) for (const one of drawn) if (!one.line.abandoned) drawOutside(pen, one, frame.limits);
  drawMarks(pen, frame.marks ?? []);
  drawNames(pen, drawn, frame);
  for (const one of drawn) if (one.line.ring) drawRing(pen, one, one.line.ring, frame.logY);
  for (const one of drawn) if (one.line.endText !== undefined) drawEnd(pen, one, frame);
  pen.context.restore();
}

function drawThresholds(pen: Pen, thresholds: readonly Threshold[]): void {
  const { context, ratio, left, right, top, bottom } = pen;
  const shown = thresholds.filter(({ value }) => up(pen, value) >= top && up(pen, value) <= bottom);
  const tops = spread(
    shown.map(({ value }) => up(pen, value)),
    11 * ratio,
    top,
    bottom,
  );
  context.font = `${11 * ratio}px ${FAMILY}`;
  context.lineWidth = ratio;
  context.textAlign = "right";
  context.textBaseline = "middle";
  shown.forEach(({ value, label, colour, textColour }, index) => {
    const y = Math.round(up(pen, value)) + ratio / 2;
    context.strokeStyle = colour;
    context.setLineDash([ratio, 3 * ratio]);
    segment(context, left, y, right, y);
    context.setLineDash([]);
    context.fillStyle = textColour;
    context.fillText(label, left - 8 * ratio, tops[index] as number);
  });
}

export function segment(
  context: CanvasRenderingContext2D,
  x1: number,
  y1: number,
  x2: number,
  y2: number,
): void {
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.stroke();
}

function drawStem({ context, ratio, top, bottom, token }: Pen, x: number): void {
  context.strokeStyle = token("warn-mark");
  context.lineWidth = ratio;
  context.setLineDash([2 * ratio, 3 * ratio]);
  segment(context, x + ratio / 2, top - 8 * ratio, x + ratio / 2, bottom);
  context.setLineDash([]);
}

/** A cross on the axis where a value is not a number: the line has a gap there. One per few pixels. */
function drawGaps(pen: Pen, { line, kept }: DrawnLine): void {
  const { context, ratio, bottom, token } = pen;
  const values = measured(line);
  const arm = 3 * ratio;
  const y = bottom - arm - ratio;
  let drawnTo = Number.NEGATIVE_INFINITY;
  context.strokeStyle = token("bad-mark");
  context.lineWidth = 1.5 * ratio;
  context.beginPath();
  for (const index of kept) {
    if (Number.isFinite(values[index])) continue;
    const x = across(pen, line.x[index] as number);
    if (x === null || x - drawnTo < 2 * arm) continue;
    drawnTo = x;
    context.moveTo(x - arm, y - arm);
    context.lineTo(x + arm, y + arm);
    context.moveTo(x - arm, y + arm);
    context.lineTo(x + arm, y - arm);
  }
  context.stroke();
}

const TRIANGLE = 4;

/** A triangle on the edge where a value lies beyond the limits. One per few pixels. */
function drawOutside(pen: Pen, { line, kept }: DrawnLine, [low, high]: Range): void {
  const { context, ratio, top, bottom, token } = pen;
  const values = measured(line);
  const arm = TRIANGLE * ratio;
  const drawnTo = { above: Number.NEGATIVE_INFINITY, below: Number.NEGATIVE_INFINITY };
  context.fillStyle = token("bad-mark");
  context.beginPath();
  for (const index of kept) {
    const value = values[index] as number;
    const side = value > high ? "above" : value < low ? "below" : null;
    const x = side && across(pen, line.x[index] as number);
    if (side === null || x === null || x - drawnTo[side] < 2 * arm) continue;
    drawnTo[side] = x;
    const [tip, base] = side === "above" ? [top - arm, top + arm * 0.7] : [bottom, bottom - arm * 1.7];
    context.moveTo(x, tip);
    context.lineTo(x - arm, base);
    context.lineTo(x + arm, base);
    context.closePath();
  }
  context.fill();
}

/** Room that a dot needs of the width. */
const DOT_ROOM = 8;

function drawSinglePoints(pen: Pen, { line, x, y, raw }: DrawnLine): void {
  const { context, ratio } = pen;
  const column = raw ?? y;
  const withDots = line.dots === true && x.length * DOT_ROOM * ratio <= pen.right - pen.left;
  context.fillStyle = line.colour;
  for (const index of withDots ? drawable(y) : singlePoints(column)) {
    const at = across(pen, x[index] as number);
    if (at === null) continue;
    context.beginPath();
    context.arc(
      at,
      up(pen, (withDots ? y : column)[index] as number),
      (withDots ? 2 : 2.5) * ratio,
      0,
      2 * Math.PI,
    );
    context.fill();
  }
}

const drawable = (column: Column): number[] =>
  column.flatMap((value, index) => (value === null ? [] : [index]));

/** Diamonds nearer to each other than this share one text. */
const APART = 14;

function drawMarks(pen: Pen, marks: readonly Mark[]): void {
  const shown = marks.flatMap((mark) => {
    const x = across(pen, mark.x);
    return x === null ? [] : [{ mark, x }];
  });
  const hits = shown.filter(({ mark }) => !mark.plain);
  for (const { mark, x } of hits) drawDiamond(pen, x, mark.now);
  const now = hits.find(({ mark }) => mark.now);
  if (now) drawMarkText(pen, now.x, now.mark);
  const past = hits.filter(({ mark }) => !mark.now);
  for (const group of nearGroups(
    past.map(({ x }) => x),
    APART * pen.ratio,
  )) {
    const last = past[group.at(-1) as number] as (typeof past)[number];
    const text = groupText(group.map((index) => (past[index] as (typeof past)[number]).mark));
    drawMarkText(pen, last.x, { ...last.mark, text });
  }
  for (const { mark, x } of shown) {
    if (!mark.plain) continue;
    drawPlainText(
      pen,
      x - 4 * pen.ratio,
      mark.text,
      hits.map((hit) => hit.x),
    );
  }
}

/** Right of a diamond and its number there is no room for another text. */
const HIT_ROOM = 24;

/** In front of its line, and of the diamonds that would be in its way. */
function drawPlainText(pen: Pen, end: number, text: string, hits: readonly number[]): void {
  const { context, ratio, top, token } = pen;
  context.font = `${11 * ratio}px ${FAMILY}`;
  const { width } = context.measureText(text);
  let right = end;
  for (const hit of [...hits].sort((a, b) => b - a)) {
    const isInTheWay = hit - HIT_ROOM * ratio < right && hit + HIT_ROOM * ratio > right - width;
    if (isInTheWay) right = hit - HIT_ROOM * ratio;
  }
  context.fillStyle = token("warn");
  context.textBaseline = "middle";
  context.textAlign = "right";
  context.fillText(text, right, top - 13 * ratio);
}

function drawDiamond({ context, ratio, top, token }: Pen, x: number, filled: boolean): void {
  const y = top - 13 * ratio;
  const arm = DIAMOND * ratio;
  context.beginPath();
  context.moveTo(x, y - arm);
  context.lineTo(x + arm, y);
  context.lineTo(x, y + arm);
  context.lineTo(x - arm, y);
  context.closePath();
  context.lineWidth = 1.5 * ratio;
  context.strokeStyle = token("warn-mark");
  context.fillStyle = token(filled ? "warn-mark" : "surface");
  context.fill();
  context.stroke();
}

function drawMarkText({ context, ratio, top, token }: Pen, x: number, { text, now }: Mark): void {
  context.font = `${now ? 600 : 400} ${11 * ratio}px ${FAMILY}`;
  context.fillStyle = token(now ? "warn" : "t3");
  context.textBaseline = "middle";
  context.textAlign = now ? "right" : "left";
  context.fillText(text, x + (now ? -12 : 9) * ratio, top - 13 * ratio);
}

interface End {
  one: DrawnLine;
  x: number;
  y: number;
}

/** The last point of a line that is shown and can be drawn. */
function endOf(pen: Pen, one: DrawnLine, { range, logY }: Frame): End | null {
  const { line, kept } = one;
  for (let at = kept.length - 1; at >= 0; at -= 1) {
    const index = kept[at] as number;
    const [x, y] = [line.x[index] as number, line.y[index] as number];
    if (x > range[1] || !isDrawable(y, logY)) continue;
    return { one, x: pen.plot.valToPos(x, "x", true), y: up(pen, y) };
  }
  return null;
}

/** Names at the edge, moved apart, with a leader to the end of their line; those of dashed lines above it. */
function drawNames(pen: Pen, drawn: readonly DrawnLine[], frame: Frame): void {
  const { context, ratio, top, bottom, right } = pen;
  const ends = drawn.flatMap((one) => endOf(pen, one, frame) ?? []);
  // As many as fit below each other: the first have colours of their own.
  const fitting = Math.max(1, Math.floor((bottom - top) / (LABEL_HEIGHT * ratio)));
  const named = ends.filter(({ one }) => isNamed(one.line)).slice(0, fitting);
  const tops = spread(
    named.map(({ y }) => y),
    LABEL_HEIGHT * ratio,
    top,
    bottom,
  );
  named.forEach(({ one: { line }, x, y }, index) => {
    const labelTop = tops[index] as number;
    drawLeader(pen, line.colour, x, y, right + 4 * ratio, labelTop);
    if (line.live) drawDot(pen, line.colour, x, y);
    context.font = `500 ${11 * ratio}px ${FAMILY}`;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillStyle = line.textColour ?? line.colour;
    context.fillText(endLabel(line.label), right + 7 * ratio, labelTop);
  });
  for (const end of ends) if (end.one.line.dashed && !end.one.line.faint) drawDashedName(pen, end);
}

function drawDashedName({ context, ratio, left, token }: Pen, { one, x, y }: End): void {
  const { label } = one.line;
  context.font = `${11 * ratio}px ${FAMILY}`;
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.lineWidth = 3 * ratio;
  context.strokeStyle = token("surface");
  context.fillStyle = token("t3");
  const at = Math.max(x, left + context.measureText(label).width);
  context.strokeText(label, at, y - 9 * ratio);
  context.fillText(label, at, y - 9 * ratio);
}

/** A dotted line from the end of a line to its name, where they are apart. */
function drawLeader(
  { context, ratio }: Pen,
  colour: string,
  x: number,
  y: number,
  labelLeft: number,
  labelTop: number,
): void {
  if (labelLeft - x < 8 * ratio && Math.abs(labelTop - y) < 4 * ratio) return;
  context.strokeStyle = faded(colour, 60);
  context.lineWidth = ratio;
  context.setLineDash([ratio, 2 * ratio]);
  context.beginPath();
  context.moveTo(x + 3 * ratio, y);
  context.lineTo(Math.max(x + 3 * ratio, labelLeft - 6 * ratio), y);
  context.lineTo(labelLeft, labelTop);
  context.stroke();
  context.setLineDash([]);
}

export function drawDot({ context, ratio, token }: Pen, colour: string, x: number, y: number): void {
  context.beginPath();
  context.arc(x, y, 3.5 * ratio, 0, 2 * Math.PI);
  context.fillStyle = colour;
  context.strokeStyle = token("surface");
  context.lineWidth = 1.5 * ratio;
  context.fill();
  context.stroke();
}

/** The last measured value as a dot with its text beside it, on the side where there is room. */
function drawEnd(pen: Pen, one: DrawnLine, { marks, logY }: Frame): void {
  const { line } = one;
  const { top, bottom } = pen;
  const values = measured(line);
  let last = line.x.length - 1;
  while (last > 0 && !Number.isFinite(values[last])) last -= 1;
  const x = last < 0 ? null : across(pen, line.x[last] as number);
  if (x === null || !isDrawable(values[last] as number, logY)) return;
  const y = Math.min(Math.max(up(pen, values[last] as number), top), bottom);
  if (marks?.some((mark) => mark.now && mark.x === line.x[last])) drawLastLeg(pen, one, logY, x, y);
  drawDot(pen, line.colour, x, y);
  drawEndText(pen, one, x, y);
}

/** The way to the point that stopped the run, at full strength. */
function drawLastLeg(pen: Pen, { line }: DrawnLine, logY: boolean, x: number, y: number): void {
  const { context, ratio, plot } = pen;
  const before = line.x.length - 2;
  const value = measured(line)[before];
  if (value === undefined || !isDrawable(value, logY)) return;
  context.strokeStyle = line.colour;
  context.lineWidth = 2 * ratio;
  segment(context, plot.valToPos(line.x[before] as number, "x", true), up(pen, value), x, y);
}

function drawEndText(pen: Pen, one: DrawnLine, x: number, y: number): void {
  const { context, ratio, token, top, left } = pen;
  const { endText: text = "", endWarning: warning = "" } = one.line;
  context.font = `600 ${11 * ratio}px ${FAMILY}`;
  context.textBaseline = "middle";
  const [own, gap] = [context.measureText(text).width, warning === "" ? 0 : 8 * ratio];
  const wide = own + gap + context.measureText(warning).width;
  const width = wide + 10 * ratio;
  const fits = x - width > left;
  context.textAlign = "left";
  const crest = crestBetween(pen, one, fits ? x - width : x, fits ? x : x + width);
  // A point well above its neighbours has room beside it; otherwise the text is above the line.
  const beside = y < crest - 12 * ratio;
  const textY = beside
    ? y + (y - top > 12 * ratio ? 0 : 4 * ratio)
    : Math.max(crest - 10 * ratio, top + 6 * ratio);
  const textX = x + (fits ? -1 : 1) * (beside ? 10 : 0) * ratio - (fits ? wide : 0);
  context.lineWidth = 3 * ratio;
  context.strokeStyle = token("surface");
  for (const [words, from, colour] of [
    [text, textX, "text"],
    [warning, textX + own + gap, "bad"],
  ] as const) {
    context.strokeText(words, from, textY);
    context.fillStyle = token(colour);
    context.fillText(words, from, textY);
  }
}

/** A ring on a point that has a name, with its text above. */
function drawRing(
  pen: Pen,
  { line }: DrawnLine,
  { index, text }: { index: number; text: string },
  logY: boolean,
) {
  const { context, ratio, token, top, left, right } = pen;
  const value = measured(line)[index];
  const x = value === undefined ? null : across(pen, line.x[index] as number);
  if (value === undefined || x === null || !isDrawable(value, logY)) return;
  const y = up(pen, value);
  context.beginPath();
  context.arc(x, y, 3.5 * ratio, 0, 2 * Math.PI);
  context.fillStyle = token("surface");
  context.strokeStyle = line.colour;
  context.lineWidth = 2 * ratio;
  context.fill();
  context.stroke();
  context.font = `600 ${11 * ratio}px ${FAMILY}`;
  context.textBaseline = "middle";
  context.textAlign = "left";
  const width = context.measureText(text).width;
  const textX = Math.min(Math.max(x - width / 2, left), right - width);
  const textY = Math.max(y - 22 * ratio, top + 6 * ratio);
  context.lineWidth = 3 * ratio;
  context.strokeStyle = token("surface");
  context.strokeText(text, textX, textY);
  context.fillStyle = token("text");
  context.fillText(text, textX, textY);
}

/** Highest point that a line reaches between two x of the screen, its last point left out. */
function crestBetween({ plot, bottom }: Pen, { x, y, raw }: DrawnLine, from: number, to: number): number {
  let crest = bottom;
  for (let index = x.length - 2; index >= 0; index -= 1) {
    const at = plot.valToPos(x[index] as number, "x", true);
    if (at < from) break;
    if (at > to) continue;
    for (const value of [raw?.[index], y[index]]) {
      if (value != null) crest = Math.min(crest, plot.valToPos(value, "y", true));
    }
  }
  return crest;
}
