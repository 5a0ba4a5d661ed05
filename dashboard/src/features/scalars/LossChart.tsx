/** The chart itself, with its keyboard; loaded when a Live page is first shown. */
import { type KeyboardEvent, type RefObject, useEffect, useRef } from "react";
import type { Theme } from "@/charts/colors/viridis";
import { LinePlot, type PlotFrame } from "@/charts/line/linePlot";
import { useSize } from "@/charts/useSize";
import { formatCount } from "@/lib/format";
import { panned, type Range, rangeView, type View, valueRange, zoomed } from "./chartRange";

export interface LossChartProps {
  name: string;
  frame: Omit<PlotFrame, "cursor">;
  /** Changes when there is something new to draw. */
  version: number;
  onView: (view: View) => void;
  cursor: number | null;
  onCursor: (cursor: number | null) => void;
  /** Whether it fills the page; Esc then leads back. */
  expanded: boolean;
  theme: Theme;
  plotRef: RefObject<LinePlot | null>;
}

export default function LossChart(props: LossChartProps) {
  const { name, frame, version, onView, cursor, onCursor, theme, plotRef } = props;
  const [container, size] = useSize<HTMLDivElement>();
  const latest = useRef(props);
  latest.current = props;

  useEffect(() => {
    if (!container.current) return;
    const ends = () => endsOf(latest.current.frame);
    const plot = new LinePlot(container.current, {
      valueRange,
      onHover: (index) => latest.current.onCursor(index),
      onSelect: (from, to) => latest.current.onView(rangeView(from, to, ...ends())),
      onWheel: (at, factor) =>
        latest.current.onView(zoomed(latest.current.frame.range, at, factor, ...ends())),
      onReset: () => latest.current.onView({ kind: "recent" }),
    });
    plotRef.current = plot;
    return () => {
      plot.destroy();
      plotRef.current = null;
    };
  }, [container, plotRef]);

  useEffect(() => plotRef.current?.resize(size.width, size.height), [size, plotRef]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new theme means new colours in the same variables
  useEffect(() => plotRef.current?.recolour(), [theme, plotRef]);
  const [from, to] = frame.range;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the frame's columns grow in place; the version says when
  useEffect(() => {
    if (size.width > 0) plotRef.current?.draw({ ...latest.current.frame, cursor });
  }, [
    version,
    from,
    to,
    frame.logScale,
    frame.sigma,
    frame.marks,
    frame.lastLabel,
    frame.trend,
    cursor,
    size,
    plotRef,
  ]);

  const onKeyDown = (event: KeyboardEvent) => {
    const next = keyStep(event, latest.current);
    if (next === undefined) return;
    event.preventDefault();
    if ("cursor" in next) onCursor(next.cursor);
    else onView(next.view);
  };
  const last = frame.points.step.length - 1;
  const summary = last < 0 ? "no points yet" : `${formatCount(last + 1)} points, ${frame.lastLabel}`;
  return (
    <div
      ref={container}
      role="img"
      aria-label={`${name} over steps: ${summary}. Arrows move the cursor, plus and minus zoom, 0 shows all.`}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrows move a cursor that is read out
      tabIndex={0}
      data-keys="own"
      onKeyDown={onKeyDown}
      onBlur={() => onCursor(null)}
      className="min-h-0 flex-1 overflow-hidden rounded-mark"
    />
  );
}

function endsOf(frame: Omit<PlotFrame, "cursor">): [first: number, last: number] {
  const { step } = frame.points;
  return [step[0] ?? 0, step[step.length - 1] ?? 0];
}

type KeyResult = { cursor: number | null } | { view: View } | undefined;

/** What a key does to cursor or view; undefined when it is none of ours. */
function keyStep(event: KeyboardEvent, { frame, cursor, expanded }: LossChartProps): KeyResult {
  const last = frame.points.step.length - 1;
  if (last < 0 || event.ctrlKey || event.metaKey || event.altKey) return undefined;
  const [first, end] = endsOf(frame);
  const range: Range = frame.range;
  const at = cursor === null ? (range[0] + range[1]) / 2 : (frame.points.step[cursor] as number);
  const stride = event.shiftKey ? 10 : 1;
  const moved = (by: number) => ({
    cursor: Math.min(last, Math.max(0, cursor === null ? last : cursor + by)),
  });
  switch (event.key) {
    case "ArrowLeft":
      return moved(-stride);
    case "ArrowRight":
      return moved(stride);
    case "Home":
      return { cursor: 0 };
    case "End":
      return { cursor: last };
    case "+":
    case "=":
      return { view: zoomed(range, at, 1 / 1.5, first, end) };
    case "-":
      return { view: zoomed(range, at, 1.5, first, end) };
    case "PageUp":
      return { view: panned(range, -0.5, first, end) };
    case "PageDown":
      return { view: panned(range, 0.5, first, end) };
    case "0":
      return { view: { kind: "all" } };
    case "Escape":
      // Where there is nothing to clear the key is left to the page, which may close what is large.
      return cursor === null || expanded ? undefined : { cursor: null };
    default:
      return undefined;
  }
}
