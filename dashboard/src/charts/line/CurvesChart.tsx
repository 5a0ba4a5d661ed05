/** Curves of many runs over each other on a canvas. What is pointed at is drawn on a second one, so that the first rests. */
import { type KeyboardEvent, type PointerEvent, useLayoutEffect, useMemo, useRef, useState } from "react";
import { type Axis, linearAxis } from "@/charts/axis";
import type { Theme } from "@/charts/colors/viridis";
import { useSize } from "@/charts/useSize";
import { drawCurves, drawPointed } from "./curvesDraw";
import { type CurveFrame, type Pointed, pointedAt, roomOf } from "./curvesFrame";
import { type Line, type Range, stepExtent, valueAxis } from "./lines";

export interface ChartCurve extends Line {
  /** The same colour where it must be read. */
  textColour: string;
  /** What was measured, behind a smoothed line; left out where the line is it. */
  raw?: ArrayLike<number>;
  /** Lowest and highest of each bucket; left out where every point is drawn. */
  low?: ArrayLike<number>;
  high?: ArrayLike<number>;
  /** It goes on: a dot at its end. */
  live?: boolean;
}

interface CurvesChartProps {
  label: string;
  curves: readonly ChartCurve[];
  logY: boolean;
  /** A place on the x axis in words. */
  xText: (value: number, span: number) => string;
  /** What the x axis counts in over such a length, where that is not 1: 60 for minutes of seconds. */
  xUnit?: (span: number) => number;
  /** What is under the cursor. */
  onPoint?: (pointed: Pointed | null) => void;
  onPick?: (id: string) => void;
  theme: Theme;
}

const NO_RANGE: Range = [0, 1];
const one = () => 1;

/** An axis whose ticks are round in another unit than its values are in. */
function axisIn(unit: number, from: number, to: number, most: number): Axis {
  const axis = linearAxis(from / unit, to / unit, Math.max(1, most));
  return {
    low: from,
    high: to,
    unit: (value) => axis.unit(value / unit),
    value: (share) => axis.value(share) * unit,
    ticks: axis.ticks.map(({ value, label }) => ({ value: value * unit, label })),
  };
}

export function CurvesChart(props: CurvesChartProps) {
  const { label, curves, logY, xText, xUnit = one, onPoint, onPick, theme } = props;
  const [container, size] = useSize<HTMLDivElement>();
  const still = useRef<HTMLCanvasElement>(null);
  const moving = useRef<HTMLCanvasElement>(null);
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const frame = useMemo((): CurveFrame => {
    const range = stepExtent(curves) ?? NO_RANGE;
    const [first, to] = range[1] > range[0] ? range : [range[0] - 0.5, range[0] + 0.5];
    // What begins near 0 is drawn from 0 on.
    const from = first > 0 && first < to * 0.1 ? 0 : first;
    const yAxis = valueAxis(curves, [from, to], [], Math.max(1, (size.height - 26) / 32), logY);
    const room = roomOf(curves, size, yAxis.ticks);
    return {
      ...size,
      ...room,
      logY,
      xText,
      xAxis: axisIn(xUnit(to - from), from, to, (size.width - room.left - room.right) / 64),
      yAxis,
    };
  }, [curves, logY, xText, xUnit, size]);
  const drawable = size.width > frame.left + frame.right && size.height > 40;

  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme changes the colours that are read while drawing
  useLayoutEffect(() => {
    const canvas = still.current;
    if (canvas === null || !drawable) return;
    const paint = () => drawCurves(canvas, frame, curves);
    paint();
    if (document.fonts.status !== "loaded") void document.fonts.ready.then(paint);
  }, [curves, frame, drawable, theme]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: as above
  useLayoutEffect(() => {
    if (moving.current !== null && drawable) drawPointed(moving.current, frame, curves, pointed);
  }, [curves, frame, drawable, pointed, theme]);

  const point = (next: Pointed | null) => {
    setPointed(next);
    onPoint?.(next);
  };
  const onMove = (event: PointerEvent) => {
    const { offsetX, offsetY } = event.nativeEvent;
    point(pointedAt(frame, curves, offsetX, offsetY));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") return point(null);
    const next = keyed(curves, frame, pointed, event.key);
    if (next === null) return;
    event.preventDefault();
    point(next);
  };
  return (
    <div
      ref={container}
      role="img"
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrows move a cursor that is read out
      tabIndex={0}
      data-keys="own"
      onKeyDown={onKeyDown}
      className="relative min-h-0 min-w-0 flex-1 focus-visible:-outline-offset-2"
    >
      <canvas
        ref={still}
        className="absolute inset-0 block"
        style={{ width: size.width, height: size.height }}
      />
      <canvas
        ref={moving}
        onPointerMove={onMove}
        onPointerLeave={() => point(null)}
        onPointerDown={() => pointed && onPick?.(pointed.id)}
        className="absolute inset-0 block"
        style={{ width: size.width, height: size.height }}
      />
    </div>
  );
}

/** Arrows: left and right along a curve, up and down from one to the next. */
function keyed(
  curves: readonly ChartCurve[],
  frame: CurveFrame,
  pointed: Pointed | null,
  key: string,
): Pointed | null {
  const along = { ArrowLeft: -1, ArrowRight: 1, PageUp: 20, PageDown: -20 }[key];
  const across = { ArrowUp: -1, ArrowDown: 1 }[key];
  if ((along === undefined && across === undefined) || curves.length === 0) return null;
  const now = Math.max(
    0,
    curves.findIndex(({ id }) => id === pointed?.id),
  );
  const curve = curves[(now + (across ?? 0) + curves.length) % curves.length] as ChartCurve;
  const last = curve.step.length - 1;
  if (last < 0) return null;
  const index = pointed === null ? last : Math.min(last, Math.max(0, pointed.index + (along ?? 0)));
  const [x, y] = [curve.step[index] as number, curve.value[index] as number];
  return { id: curve.id, index, x, y, span: frame.xAxis.high - frame.xAxis.low };
}
