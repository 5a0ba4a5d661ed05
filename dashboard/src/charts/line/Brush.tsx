/** The way so far in small, with two handles that choose the steps shown. */
import { type KeyboardEvent, type PointerEvent, useLayoutEffect, useRef } from "react";
import type { Theme } from "@/charts/colors/viridis";
import { useSize } from "@/charts/useSize";
import { formatCount } from "@/lib/format";
import { decimate } from "./decimate";
import type { Line, Range } from "./lines";

interface BrushProps {
  lines: readonly Line[];
  /** All steps there are. */
  extent: Range;
  /** Steps chosen. */
  range: Range;
  /** Null: everything, also what is to come. */
  onRange: (range: Range | null) => void;
  theme: Theme;
}

type Grip = "from" | "to" | "all";

export function Brush({ lines, extent, range, onRange, theme }: BrushProps) {
  const [container, size] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const grip = useRef<{ part: Grip; at: number; range: Range } | null>(null);
  const span = Math.max(extent[1] - extent[0], 1);
  const xOf = (step: number) => ((step - extent[0]) / span) * size.width;
  useLayoutEffect(() => {
    const element = canvas.current;
    if (element && size.width > 0) drawOverview(element, lines, extent, size);
  });
  const choose = (from: number, to: number) => {
    const least = Math.max(1, Math.round(span / 200));
    const start = Math.round(Math.min(Math.max(from, extent[0]), extent[1] - least));
    const end = Math.round(Math.min(Math.max(to, start + least), extent[1]));
    onRange(start <= extent[0] && end >= extent[1] ? null : [start, end]);
  };
  const shift = (part: Grip, by: number, [from, to]: Range) => {
    if (part === "from") return choose(Math.min(from + by, to - 1), to);
    if (part === "to") return choose(from, to + by);
    const moved = Math.min(Math.max(by, extent[0] - from), extent[1] - to);
    return choose(from + moved, to + moved);
  };
  const press = (part: Grip) => (event: PointerEvent<HTMLElement>) => {
    grip.current = { part, at: event.clientX, range };
    event.currentTarget.setPointerCapture(event.pointerId);
    event.stopPropagation();
  };
  const drag = (event: PointerEvent<HTMLElement>) => {
    const held = grip.current;
    if (held) shift(held.part, ((event.clientX - held.at) / Math.max(size.width, 1)) * span, held.range);
  };
  const drop = () => {
    grip.current = null;
  };
  const onKeyDown = (part: Grip) => (event: KeyboardEvent) => {
    const unit = Math.max(1, Math.round(span / 50));
    const by = { ArrowLeft: -unit, ArrowRight: unit, Home: -span, End: span }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    shift(part, by, range);
  };
  const [left, right] = [xOf(range[0]), xOf(range[1])];
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: Home and End on the handles show everything too
    <div
      ref={container}
      className="relative h-4 min-w-0 touch-none"
      onDoubleClick={() => onRange(null)}
      data-theme-drawn={theme}
    >
      <canvas
        ref={canvas}
        className="absolute inset-0 block rounded-mark"
        style={{ width: size.width, height: size.height }}
      />
      <div
        className="absolute inset-y-0 border-y border-line2 bg-accent/5"
        style={{ left, width: Math.max(right - left, 2) }}
        onPointerDown={press("all")}
        onPointerMove={drag}
        onPointerUp={drop}
      />
      {(["from", "to"] as const).map((part) => (
        <div
          key={part}
          role="slider"
          tabIndex={0}
          aria-label={part === "from" ? "First step shown" : "Last step shown"}
          aria-valuemin={extent[0]}
          aria-valuemax={extent[1]}
          aria-valuenow={part === "from" ? range[0] : range[1]}
          aria-valuetext={formatCount(part === "from" ? range[0] : range[1])}
          onPointerDown={press(part)}
          onPointerMove={drag}
          onPointerUp={drop}
          onKeyDown={onKeyDown(part)}
          className="absolute -inset-y-1 flex w-6 -translate-x-1/2 cursor-ew-resize justify-center"
          style={{ left: part === "from" ? left : right }}
        >
          <span className="my-1 h-4 w-1 rounded-mark bg-t2" />
        </div>
      ))}
    </div>
  );
}

function drawOverview(
  element: HTMLCanvasElement,
  lines: readonly Line[],
  extent: Range,
  size: { width: number; height: number },
): void {
  const ratio = devicePixelRatio;
  element.width = Math.round(size.width * ratio);
  element.height = Math.round(size.height * ratio);
  const context = element.getContext("2d");
  if (!context) return;
  context.scale(ratio, ratio);
  context.fillStyle = getComputedStyle(element).getPropertyValue("--s2").trim();
  context.fillRect(0, 0, size.width, size.height);
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const { value } of lines) {
    for (let index = 0; index < value.length; index += 1) {
      const at = value[index] as number;
      if (at < low) low = at;
      if (at > high) high = at;
    }
  }
  if (!(high > low)) return;
  const span = Math.max(extent[1] - extent[0], 1);
  context.lineWidth = 1;
  for (const { step, value, colour } of lines) {
    const kept = decimate(
      step,
      value,
      { start: 0, stop: step.length },
      Math.max(32, Math.floor(size.width / 2)),
    );
    context.strokeStyle = colour;
    context.beginPath();
    for (const index of kept) {
      const x = (((step[index] as number) - extent[0]) / span) * size.width;
      const y = size.height - 2 - (((value[index] as number) - low) / (high - low)) * (size.height - 4);
      if (Number.isFinite(y)) context.lineTo(x, y);
    }
    context.stroke();
  }
}
