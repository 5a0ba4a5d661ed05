/** Several lines over steps on a canvas, with direct labels, thresholds and a cursor; a brush below chooses the steps. */
import {
  type KeyboardEvent,
  type PointerEvent,
  type RefObject,
  useLayoutEffect,
  useMemo,
  useRef,
} from "react";
import type { Axis } from "@/charts/axis";
import { linearAxis } from "@/charts/axis";
import type { Theme } from "@/charts/colors/viridis";
import { useSize } from "@/charts/useSize";
import { formatCount, formatValue } from "@/lib/format";
import { decimate, visibleWindow } from "./decimate";
import {
  endLabel,
  type Line,
  labelRoom,
  pointAt,
  type Range,
  spread,
  type Threshold,
  valueAxis,
} from "./lines";

interface LinesChartProps {
  label: string;
  lines: readonly Line[];
  /** Steps shown. */
  range: Range;
  thresholds: readonly Threshold[];
  /** A log scale of the values; those that are not positive leave a gap. */
  logY?: boolean;
  /** Step under the cursor. */
  cursor: number | null;
  onCursor: (step: number | null) => void;
  /** A click on a line, or near it. */
  onPick?: (id: string) => void;
  theme: Theme;
  canvasRef?: RefObject<HTMLCanvasElement | null>;
}

const FONT = "11px Inter, system-ui, sans-serif";
const LEFT = 40;
const TOP = 6;
const BOTTOM = 20;
/** Between two labels at the ends of lines. */
const LABEL_HEIGHT = 12;

export interface LinesFrame {
  width: number;
  height: number;
  /** Room for labels at the ends of lines. */
  right: number;
  logY: boolean;
  xAxis: Axis;
  yAxis: Axis;
}

export function LinesChart(props: LinesChartProps) {
  const { label, lines, range, thresholds, logY = false, cursor, onCursor, onPick, theme } = props;
  const [container, size] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const frame = useMemo((): LinesFrame => {
    const [from, to] = range[1] > range[0] ? range : [range[0] - 0.5, range[0] + 0.5];
    const right = Math.min(labelRoom(lines), Math.max(0, size.width / 3));
    return {
      ...size,
      right,
      logY,
      xAxis: linearAxis(from, to, Math.max(1, (size.width - LEFT - right) / 90)),
      yAxis: valueAxis(lines, range, thresholds, Math.max(1, (size.height - TOP - BOTTOM) / 28), logY),
    };
  }, [lines, range, thresholds, logY, size]);
  useLayoutEffect(() => {
    const element = canvas.current;
    if (!element || size.width <= LEFT + frame.right) return;
    const paint = () => drawLines(element, frame, props);
    paint();
    if (document.fonts.status !== "loaded") void document.fonts.ready.then(paint);
    if (props.canvasRef) props.canvasRef.current = element;
  });
  const stepAt = (event: PointerEvent) => {
    const share = (event.nativeEvent.offsetX - LEFT) / (size.width - LEFT - frame.right);
    return share < 0 || share > 1 ? null : Math.round(frame.xAxis.value(share));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") return onCursor(null);
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: 20, PageDown: -20 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const next = cursor === null ? Math.round(range[1]) : neighbour(lines, cursor, by);
    onCursor(Math.min(Math.max(next, range[0]), range[1]));
  };
  const pick = (event: PointerEvent) => {
    const step = stepAt(event);
    if (step === null || !onPick) return;
    const hit = nearestLine(frame, lines, step, event.nativeEvent.offsetY);
    if (hit !== null) onPick(hit.id);
  };
  return (
    <div
      ref={container}
      role="img"
      aria-label={`${label} ${lines.length} lines over steps ${formatCount(range[0])} to ${formatCount(range[1])}. Arrows move the cursor.`}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrows move a cursor that is read out
      tabIndex={0}
      data-keys="own"
      data-theme-drawn={theme}
      onKeyDown={onKeyDown}
      className="relative min-h-0 min-w-0 flex-1"
    >
      <canvas
        ref={canvas}
        onPointerMove={(event) => onCursor(stepAt(event))}
        onPointerLeave={() => onCursor(null)}
        onPointerDown={pick}
        className="absolute inset-0 block"
        style={{ width: size.width, height: size.height }}
      />
    </div>
  );
}

/** The step `by` points further on the line that has the most of them. */
function neighbour(lines: readonly Line[], step: number, by: number): number {
  const longest = lines.reduce<Line | null>(
    (best, line) => (best === null || line.step.length > best.step.length ? line : best),
    null,
  );
  if (longest === null || !longest.step.length) return step;
  const at = pointAt(longest, step) ?? 0;
  return longest.step[Math.min(Math.max(at + by, 0), longest.step.length - 1)] as number;
}

const across = (frame: LinesFrame, step: number) =>
  LEFT + frame.xAxis.unit(step) * (frame.width - LEFT - frame.right);
const up = (frame: LinesFrame, value: number) =>
  frame.height - BOTTOM - frame.yAxis.unit(value) * (frame.height - TOP - BOTTOM);
const canBeDrawn = ({ logY }: LinesFrame, value: number) => Number.isFinite(value) && !(logY && value <= 0);

/** The line nearest to a height at a step, within 24 px. */
export function nearestLine(frame: LinesFrame, lines: readonly Line[], step: number, y: number): Line | null {
  let best: Line | null = null;
  let nearest = 24;
  for (const line of lines) {
    const index = pointAt(line, step);
    const value = index === null ? Number.NaN : (line.value[index] as number);
    const distance = Math.abs(up(frame, value) - y);
    if (distance < nearest) {
      nearest = distance;
      best = line;
    }
  }
  return best;
}

type Read = (name: string) => string;

function drawLines(element: HTMLCanvasElement, frame: LinesFrame, props: LinesChartProps): void {
  const ratio = devicePixelRatio;
  element.width = Math.round(frame.width * ratio);
  element.height = Math.round(frame.height * ratio);
  const context = element.getContext("2d");
  if (!context) return;
  context.scale(ratio, ratio);
  const style = getComputedStyle(element);
  const read: Read = (name) => style.getPropertyValue(`--${name}`).trim();
  drawGrid(context, frame, read, props.thresholds);
  drawThresholds(context, frame, props.thresholds);
  context.save();
  context.beginPath();
  context.rect(LEFT, 0, frame.width - LEFT - frame.right, frame.height - BOTTOM + 2);
  context.clip();
  const back = props.lines.filter(({ faint, dashed }) => faint || dashed);
  const front = props.lines.filter(({ faint, dashed }) => !faint && !dashed);
  for (const line of [...back, ...front]) drawLine(context, frame, line, props.range);
  context.restore();
  drawEnds(context, frame, read, props);
  drawCursor(context, frame, read, props);
}

function drawGrid(
  context: CanvasRenderingContext2D,
  frame: LinesFrame,
  read: Read,
  thresholds: readonly Threshold[],
): void {
  context.font = FONT;
  context.fillStyle = read("t3");
  context.strokeStyle = read("grid");
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.lineWidth = 1;
  const taken = thresholds.map(({ value }) => up(frame, value));
  for (const { value, label } of frame.yAxis.ticks) {
    const y = Math.round(up(frame, value)) + 0.5;
    context.beginPath();
    context.moveTo(LEFT, y);
    context.lineTo(frame.width - frame.right, y);
    context.stroke();
    if (taken.every((other) => Math.abs(other - y) > 10)) context.fillText(label, LEFT - 8, y);
  }
  context.textBaseline = "top";
  context.textAlign = "center";
  for (const { value } of frame.xAxis.ticks) {
    if (!Number.isInteger(value)) continue;
    context.fillText(formatCount(value), across(frame, value), frame.height - BOTTOM + 5);
  }
}

function drawThresholds(
  context: CanvasRenderingContext2D,
  frame: LinesFrame,
  thresholds: readonly Threshold[],
): void {
  const shown = thresholds.filter(({ value }) => {
    const unit = frame.yAxis.unit(value);
    return unit >= 0 && unit <= 1;
  });
  const labelPositions = spread(
    shown.map(({ value }) => up(frame, value)),
    11,
    TOP,
    frame.height - BOTTOM,
  );
  shown.forEach(({ value, label, colour, textColour }, index) => {
    const y = Math.round(up(frame, value)) + 0.5;
    context.strokeStyle = colour;
    context.setLineDash([1, 3]);
    context.beginPath();
    context.moveTo(LEFT, y);
    context.lineTo(frame.width - frame.right, y);
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = textColour;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText(label, LEFT - 8, labelPositions[index] as number);
  });
}

function drawLine(context: CanvasRenderingContext2D, frame: LinesFrame, line: Line, range: Range): void {
  const { step, value, colour, dashed, faint } = line;
  const window = visibleWindow(step, step.length, range[0], range[1]);
  const kept = decimate(step, value, window, Math.max(64, Math.floor(frame.width - LEFT - frame.right)));
  context.strokeStyle = colour;
  context.lineWidth = faint || dashed ? 1 : 1.5;
  context.setLineDash(dashed ? [3, 3] : []);
  context.lineJoin = "round";
  context.beginPath();
  let joined = false;
  for (const index of kept) {
    const at = value[index] as number;
    if (!canBeDrawn(frame, at)) {
      joined = false;
      continue;
    }
    const [x, y] = [across(frame, step[index] as number), up(frame, at)];
    if (joined) context.lineTo(x, y);
    else context.moveTo(x, y);
    joined = true;
  }
  context.stroke();
  context.setLineDash([]);
  if (kept.length <= 2) drawDots(context, frame, line, kept);
}

/** One or two points make no line that could be seen. */
function drawDots(context: CanvasRenderingContext2D, frame: LinesFrame, line: Line, kept: Uint32Array): void {
  context.fillStyle = line.colour;
  for (const index of kept) {
    const at = line.value[index] as number;
    if (!canBeDrawn(frame, at)) continue;
    context.beginPath();
    context.arc(across(frame, line.step[index] as number), up(frame, at), 2.5, 0, 2 * Math.PI);
    context.fill();
  }
}

function drawEnds(
  context: CanvasRenderingContext2D,
  frame: LinesFrame,
  read: Read,
  { lines, range }: LinesChartProps,
): void {
  const ends = lines.flatMap((line) => {
    const index = pointAt(line, range[1]);
    const value = index === null ? Number.NaN : (line.value[index] as number);
    if (index === null || line.faint || !canBeDrawn(frame, value)) return [];
    return [{ line, x: across(frame, line.step[index] as number), y: up(frame, value) }];
  });
  context.font = `500 ${FONT}`;
  context.textBaseline = "middle";
  // As many as stand beside each other: the first have colours of their own.
  const fitting = Math.max(1, Math.floor((frame.height - TOP - BOTTOM) / LABEL_HEIGHT));
  const followed = ends.filter(({ line }) => !line.dashed).slice(0, fitting);
  const labelPositions = spread(
    followed.map(({ y }) => y),
    LABEL_HEIGHT,
    TOP,
    frame.height - BOTTOM,
  );
  context.textAlign = "left";
  followed.forEach(({ line }, index) => {
    context.fillStyle = line.colour;
    context.fillText(endLabel(line.label), frame.width - frame.right + 6, labelPositions[index] as number);
  });
  context.font = FONT;
  context.fillStyle = read("t3");
  context.textAlign = "right";
  for (const { line, x, y } of ends.filter(({ line }) => line.dashed)) {
    context.lineWidth = 3;
    context.strokeStyle = read("surface");
    const at = Math.max(x, LEFT + context.measureText(line.label).width);
    context.strokeText(line.label, at, y - 9);
    context.fillText(line.label, at, y - 9);
  }
}

function drawCursor(
  context: CanvasRenderingContext2D,
  frame: LinesFrame,
  read: Read,
  { lines, cursor }: LinesChartProps,
): void {
  if (cursor === null) return;
  const x = Math.round(across(frame, cursor)) + 0.5;
  context.strokeStyle = read("t3");
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x, TOP);
  context.lineTo(x, frame.height - BOTTOM);
  context.stroke();
  for (const line of lines) {
    const index = pointAt(line, cursor);
    const value = index === null ? Number.NaN : (line.value[index] as number);
    if (!canBeDrawn(frame, value)) continue;
    context.beginPath();
    context.arc(x, up(frame, value), 3, 0, 2 * Math.PI);
    context.fillStyle = line.colour;
    context.strokeStyle = read("surface");
    context.fill();
    context.stroke();
  }
}

/** The values under the cursor, as a line of text. */
export function cursorText(lines: readonly Line[], step: number): string {
  const parts = lines.flatMap((line) => {
    const index = pointAt(line, step);
    return index === null || line.faint ? [] : [`${line.label} ${formatValue(line.value[index], 3)}`];
  });
  return [`step ${formatCount(step)}`, ...parts].join("  ");
}
