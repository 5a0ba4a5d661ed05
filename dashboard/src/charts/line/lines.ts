/** Lines of a chart, each with x of its own: their type, extents, nearest points, read-outs. */
import { formatCount, formatValue } from "@/lib/format";
import { lowerBound } from "./decimate";

export interface Line {
  id: string;
  /** Name, drawn at the end of the line. */
  label: string;
  /** Never falls. */
  x: ArrayLike<number>;
  /** At least as long as `x`; what is not finite leaves a gap. */
  y: ArrayLike<number>;
  /** A CSS colour. */
  colour: string;
  /** The same colour for text; `colour` when left out. */
  textColour?: string;
  /** Measured values, drawn thin behind a smoothed line; left out where `y` holds them. */
  raw?: ArrayLike<number>;
  /** Lower and upper edge of a band at an index. */
  band?: (index: number) => readonly [low: number, high: number];
  /** Of a timeline that the run has left: pale, and the cursor does not stop at it. */
  abandoned?: boolean;
  /** No longer updated: dashed, named above its end. */
  dashed?: boolean;
  /** Behind the others, without a name. */
  faint?: boolean;
  /** Still growing: a dot at its end. */
  live?: boolean;
  /** Text beside the last finite point, in place of the name at the edge. */
  endText?: string;
  /** Text after that in the colour of what is wrong. */
  endWarning?: string;
  /** A point with a ring and a text, such as the best value. */
  ring?: { index: number; text: string };
  /** Named elsewhere, such as in a legend. */
  unnamed?: boolean;
  /** Each point as a dot, where there is room: for what is measured now and then. */
  dots?: boolean;
}

/** A horizontal limit: a dotted line with its number on the axis. */
export interface Threshold {
  value: number;
  label: string;
  colour: string;
  textColour: string;
}

/** A diamond above the chart, such as a breakpoint hit. */
export interface Mark {
  x: number;
  text: string;
  /** Filled, with its text in front: the run is paused here. */
  now: boolean;
  /** A dotted line with its text in front, and no diamond: what changed, and no stop. */
  plain?: boolean;
}

export type Range = readonly [from: number, to: number];

/** A point of a line under the cursor. */
export interface Pointed {
  id: string;
  index: number;
  x: number;
  /** The measured value. */
  y: number;
}

/** What was measured: the raw values where the line itself is smoothed. */
export function measured({ raw, y }: Line): ArrayLike<number> {
  return raw ?? y;
}

/** Whether a value can be drawn. */
export function isDrawable(value: number, logY: boolean): boolean {
  return Number.isFinite(value) && !(logY && value <= 0);
}

const isPresent = ({ abandoned }: Line) => !abandoned;

/** First and last x over all lines; null when there is no point. */
export function extentOf(lines: readonly Line[]): Range | null {
  let from = Number.POSITIVE_INFINITY;
  let to = Number.NEGATIVE_INFINITY;
  for (const { x } of lines) {
    if (!x.length) continue;
    from = Math.min(from, x[0] as number);
    to = Math.max(to, x[x.length - 1] as number);
  }
  return from <= to ? [from, to] : null;
}

/** Index of the point of a line at or before x; null before its first. */
export function pointAt({ x }: Pick<Line, "x">, wanted: number): number | null {
  const index = lowerBound(x, x.length, wanted);
  if (index < x.length && x[index] === wanted) return index;
  return index > 0 ? index - 1 : null;
}

/** Index of the point of a line nearest to x; -1 where it has none. */
export function nearestPoint({ x }: Pick<Line, "x">, wanted: number): number {
  const after = lowerBound(x, x.length, wanted);
  if (after === 0) return x.length > 0 ? 0 : -1;
  if (after === x.length) return after - 1;
  return wanted - (x[after - 1] as number) <= (x[after] as number) - wanted ? after - 1 : after;
}

export function pointedAt(line: Line, index: number): Pointed {
  return { id: line.id, index, x: line.x[index] as number, y: measured(line)[index] as number };
}

/** The line with the most points, which the arrows walk along. */
export function longestLine(lines: readonly Line[]): Line | null {
  return lines
    .filter(isPresent)
    .reduce<Line | null>(
      (best, line) => (best === null || line.x.length > best.x.length ? line : best),
      null,
    );
}

/** The point nearest to x over all lines. */
export function snapToPoint(lines: readonly Line[], wanted: number): Pointed | null {
  let best: Pointed | null = null;
  for (const line of lines.filter(isPresent)) {
    const index = nearestPoint(line, wanted);
    if (index < 0) continue;
    const distance = Math.abs((line.x[index] as number) - wanted);
    if (best === null || distance < Math.abs(best.x - wanted)) best = pointedAt(line, index);
  }
  return best;
}

/** Where values lie on the screen, in CSS pixels. */
export interface Projection {
  px: (x: number) => number;
  py: (y: number) => number;
  logY: boolean;
}

/** A pointer this near to a line means it. */
const REACH = 24;

/** The point of the line nearest to the pointer; null where none is near. */
export function lineUnder(
  lines: readonly Line[],
  { px, py, logY }: Projection,
  wanted: number,
  left: number,
  top: number,
): Pointed | null {
  let best: Pointed | null = null;
  let nearest = REACH;
  for (const line of lines.filter(isPresent)) {
    const index = nearestPoint(line, wanted);
    const value = index < 0 ? Number.NaN : (line.y[index] as number);
    if (!isDrawable(value, logY)) continue;
    const beside = Math.max(0, Math.abs(px(line.x[index] as number) - left) - 4);
    // Of two at the same distance the one with a colour is meant.
    const distance = Math.hypot(py(value) - top, beside) + (line.faint ? 2 : 0);
    if (distance >= nearest) continue;
    nearest = distance;
    best = pointedAt(line, index);
  }
  return best;
}

const LABEL_LETTERS = 20;

/** A label at the end of a line: of a long one its end, where names of layers differ. */
export function endLabel(label: string): string {
  return label.length > LABEL_LETTERS ? `…${label.slice(1 - LABEL_LETTERS)}` : label;
}

/** Whether the name of a line is drawn at the edge of the chart. */
export function isNamed({ faint, abandoned, dashed, endText, unnamed }: Line): boolean {
  return !faint && !abandoned && !dashed && !unnamed && endText === undefined;
}

/** Room for the names at the ends of lines, in pixels; 11 px letters are about 6 wide. */
export function labelRoom(lines: readonly Line[], width: number): number {
  const named = lines.filter(isNamed);
  if (named.length === 0) return lines.some(({ dashed }) => dashed) ? 44 : 12;
  const longest = named.reduce((most, { label }) => Math.max(most, endLabel(label).length), 0);
  return Math.min(Math.max(44, longest * 6 + 16), Math.max(0, width / 3));
}

/** Moves labels apart that would overlap, as little as needed; they keep their order and stay inside. */
export function spread(tops: readonly number[], distance: number, lowest: number, highest: number): number[] {
  const order = tops.map((_, index) => index).sort((a, b) => (tops[a] as number) - (tops[b] as number));
  const moved = [...tops];
  let free = lowest;
  for (const index of order) {
    moved[index] = Math.max(moved[index] as number, free);
    free = (moved[index] as number) + distance;
  }
  let limit = highest;
  for (const index of [...order].reverse()) {
    moved[index] = Math.min(moved[index] as number, limit);
    limit = (moved[index] as number) - distance;
  }
  return moved;
}

/** The values of all lines at a step, as a line of text. */
export function cursorText(lines: readonly Line[], step: number): string {
  const parts = lines.flatMap((line) => {
    const index = pointAt(line, step);
    return index === null || line.faint ? [] : [`${line.label} ${formatValue(line.y[index], 3)}`];
  });
  return [`step ${formatCount(step)}`, ...parts].join("  ");
}

/** The label of a chart of several lines over steps. */
export function linesLabel(subject: string, lines: readonly Line[], [from, to]: Range): string {
  return `${subject} ${lines.length} lines over steps ${formatCount(from)} to ${formatCount(to)}.`;
}
