/** Points on a canvas, coloured by a third value; one of them selected, some of them named. */
import {
  type KeyboardEvent,
  type PointerEvent,
  type RefObject,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { markColour, type Theme } from "@/charts/colors/viridis";
import { useSize } from "@/charts/useSize";
import { pointAfter, pointUnder, positionOf, type ScatterFrame, scatterFrame } from "./scatterHit";

export interface ScatterProps {
  /** What it shows, for those who cannot see it. */
  label: string;
  x: ArrayLike<number>;
  y: ArrayLike<number>;
  xLabel: string;
  yLabel: string;
  logX: boolean;
  logY: boolean;
  /** 0…1 on the magnitude ramp for each point; null for one plain colour. */
  colour: ArrayLike<number> | null;
  nameOf: (index: number) => string;
  /** Points that carry their name. */
  named: readonly number[];
  selected: number | null;
  onSelect: (index: number) => void;
  /** Tells what the pointer is on. */
  onHover?: (index: number | null) => void;
  theme: Theme;
  /** A dashed line where x and y are equal. */
  diagonal?: boolean;
  canvasRef?: RefObject<HTMLCanvasElement | null>;
}

const FONT = "11px Inter, system-ui, sans-serif";
/** Beyond so many points each is a small square, which draws several times faster. */
const MANY = 4_000;

export function Scatter(props: ScatterProps) {
  const { label, x, y, logX, logY, selected, onSelect, onHover, nameOf, theme } = props;
  const [container, size] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const points = useMemo(() => ({ x, y }), [x, y]);
  const frame = useMemo(() => scatterFrame(points, size, logX, logY), [points, size, logX, logY]);
  useLayoutEffect(() => {
    const element = canvas.current;
    if (!element || size.width <= 0) return;
    const paint = () => drawScatter(element, frame, props, hovered);
    paint();
    if (document.fonts.status !== "loaded") void document.fonts.ready.then(paint);
    if (props.canvasRef) props.canvasRef.current = element;
  });
  const hover = (index: number | null) => {
    if (index === hovered) return;
    setHovered(index);
    onHover?.(index);
  };
  const under = (event: PointerEvent) =>
    pointUnder(frame, points, event.nativeEvent.offsetX, event.nativeEvent.offsetY);
  const onKeyDown = (event: KeyboardEvent) => {
    const next = pointAfter(event.key, points, selected);
    if (next === null) return;
    event.preventDefault();
    onSelect(next);
  };
  return (
    <div
      ref={container}
      role="img"
      aria-label={`${label}${selected === null ? "" : ` Selected: ${nameOf(selected)}.`} Arrows select the next point.`}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrows move the selection, which is read out
      tabIndex={0}
      data-keys="own"
      data-theme-drawn={theme}
      onKeyDown={onKeyDown}
      className="relative min-h-0 min-w-0 flex-1"
    >
      <canvas
        ref={canvas}
        onPointerMove={(event) => hover(under(event))}
        onPointerLeave={() => hover(null)}
        onPointerDown={(event) => {
          const hit = under(event);
          if (hit !== null) onSelect(hit);
        }}
        className={`absolute inset-0 block ${hovered === null ? "" : "cursor-pointer"}`}
        style={{ width: size.width, height: size.height }}
      />
    </div>
  );
}

interface Pen {
  context: CanvasRenderingContext2D;
  frame: ScatterFrame;
  read: (name: string) => string;
}

function drawScatter(
  element: HTMLCanvasElement,
  frame: ScatterFrame,
  props: ScatterProps,
  hovered: number | null,
): void {
  const ratio = devicePixelRatio;
  element.width = Math.round(frame.width * ratio);
  element.height = Math.round(frame.height * ratio);
  const context = element.getContext("2d");
  if (!context) return;
  context.scale(ratio, ratio);
  const style = getComputedStyle(element);
  const pen: Pen = { context, frame, read: (name) => style.getPropertyValue(`--${name}`).trim() };
  drawAxes(pen, props);
  if (props.diagonal) drawDiagonal(pen);
  drawPoints(pen, props);
  const marked = [...new Set([...props.named, ...(hovered === null ? [] : [hovered])])];
  for (const index of marked) if (index !== props.selected) drawName(pen, props, index, false);
  if (props.selected !== null) drawSelected(pen, props, props.selected);
}

function drawAxes({ context, frame, read }: Pen, { xLabel, yLabel }: ScatterProps): void {
  const { left, right, top, bottom, xAxis, yAxis } = frame;
  context.font = FONT;
  context.strokeStyle = read("grid");
  context.fillStyle = read("t3");
  context.lineWidth = 1;
  context.beginPath();
  context.textBaseline = "top";
  context.textAlign = "center";
  let labelledTo = Number.NEGATIVE_INFINITY;
  for (const { value, label } of xAxis.ticks) {
    const x = Math.round(left + xAxis.unit(value) * (right - left)) + 0.5;
    context.moveTo(x, top);
    context.lineTo(x, bottom);
    const half = context.measureText(label).width / 2;
    if (x - half < labelledTo + 8 || x + half > frame.width) continue;
    labelledTo = x + half;
    context.fillText(label, x, bottom + 5);
  }
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const { value, label } of yAxis.ticks) {
    const y = Math.round(bottom - yAxis.unit(value) * (bottom - top)) + 0.5;
    context.moveTo(left, y);
    context.lineTo(right, y);
    context.fillText(label, left - 8, y);
  }
  context.stroke();
  context.textAlign = "center";
  context.textBaseline = "bottom";
  context.fillText(xLabel, (left + right) / 2, frame.height);
  context.save();
  context.translate(1, (top + bottom) / 2);
  context.rotate(-Math.PI / 2);
  context.textBaseline = "top";
  context.fillText(yLabel, 0, 0);
  context.restore();
}

function drawDiagonal({ context, frame, read }: Pen): void {
  const { left, right, top, bottom, xAxis, yAxis } = frame;
  context.save();
  context.beginPath();
  context.rect(left, top, right - left, bottom - top);
  context.clip();
  context.strokeStyle = read("line3");
  context.setLineDash([4, 3]);
  context.beginPath();
  for (const value of [Math.min(xAxis.low, yAxis.low), Math.max(xAxis.high, yAxis.high)])
    context.lineTo(left + xAxis.unit(value) * (right - left), bottom - yAxis.unit(value) * (bottom - top));
  context.stroke();
  context.restore();
}

function drawPoints({ context, frame, read }: Pen, props: ScatterProps): void {
  const { x, y, colour, theme } = props;
  const points = { x, y };
  const many = x.length > MANY;
  const plain = read("series-1");
  context.strokeStyle = read("surface");
  context.lineWidth = 1;
  for (let index = 0; index < x.length; index += 1) {
    const position = positionOf(frame, points, index);
    if (position === null) continue;
    context.fillStyle = colour === null ? plain : pointColour(colour[index] as number, theme, read);
    if (many) {
      context.fillRect(position[0] - 1.5, position[1] - 1.5, 3, 3);
      continue;
    }
    context.beginPath();
    context.arc(position[0], position[1], 4.5, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
  }
}

function pointColour(unit: number, theme: Theme, read: (name: string) => string): string {
  return Number.isFinite(unit) ? markColour(unit, theme) : read("line2");
}

function drawName({ context, frame, read }: Pen, props: ScatterProps, index: number, strong: boolean): void {
  const position = positionOf(frame, props, index);
  if (position === null) return;
  const text = props.nameOf(index);
  context.font = strong ? `600 ${FONT}` : FONT;
  const width = context.measureText(text).width;
  const fits = position[0] + width + 12 < frame.width;
  const offset = strong ? 11 : 8;
  context.textAlign = fits ? "left" : "right";
  context.textBaseline = "middle";
  context.lineWidth = 3;
  context.strokeStyle = read("surface");
  const x = position[0] + (fits ? offset : -offset);
  context.strokeText(text, x, position[1]);
  context.fillStyle = strong ? read("text") : read("t2");
  context.fillText(text, x, position[1]);
}

function drawSelected(pen: Pen, props: ScatterProps, index: number): void {
  const position = positionOf(pen.frame, props, index);
  if (position === null) return;
  const { context, read } = pen;
  context.beginPath();
  context.arc(position[0], position[1], 7, 0, 2 * Math.PI);
  const unit = props.colour?.[index];
  context.fillStyle = unit === undefined ? read("series-1") : pointColour(unit, props.theme, read);
  context.strokeStyle = read("text");
  context.lineWidth = 2;
  context.fill();
  context.stroke();
  drawName(pen, props, index, true);
}
