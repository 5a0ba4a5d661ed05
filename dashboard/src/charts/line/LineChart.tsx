/** The line chart of every panel: cursor by pointer or keys, zoom by drag, wheel or keys, moved by Shift and a drag, export as PNG. */
import {
  type KeyboardEvent,
  type PointerEvent,
  type RefObject,
  useCallback,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import { useSize } from "@/charts/useSize";
import { formatCount } from "@/lib/format";
import { Brush } from "./Brush";
import type { CursorSync } from "./cursorSync";
import { keyResult } from "./keys";
import { type Frame, LinePlot } from "./LinePlot";
import { extentOf, type Pointed, type Range } from "./lines";
import { clampRange, panRange, zoomRange } from "./range";

type Given = "lines" | "range" | "theme";

export interface LineChartProps extends Pick<Frame, Given>, Partial<Omit<Frame, Given>> {
  /** What it shows, for those who cannot see it; what the keys do is added. */
  label: string;
  /** Changes when the columns of the lines have grown in place. */
  version?: number;
  cursor: Pointed | null;
  onCursor: (cursor: Pointed | null) => void;
  /** Whether the cursor means the nearest line; otherwise it means all lines at its x. */
  byLine?: boolean;
  /** A click on a line, or near it. */
  onPick?: (id: string) => void;
  /** Everything that can be shown; with it and `onRange` the chart zooms. */
  bounds?: Range;
  /** A new range by drag, wheel or key; null shows everything. */
  onRange?: (range: Range | null) => void;
  /** A double click; shows everything when left out. */
  onReset?: () => void;
  /** A small chart of everything below, with handles on the range. */
  brush?: boolean;
  /** Whether Escape is left to the page while there is a cursor. */
  keepsEscape?: boolean;
  /** No range is narrower than this; below 1 ranges are not of whole steps. */
  narrowest?: number;
  /** Whether the wheel scrolls the page over the chart, as among many charts. */
  wheelScrolls?: boolean;
  /** Words below the cursor: "step 12,480". */
  cursorText?: (x: number) => string;
  /** Shares the cursor with other charts. */
  sync?: CursorSync;
  plotRef?: RefObject<LinePlot | null>;
}

const NONE: readonly never[] = [];
const one = () => 1;
/** Whole steps only. */
const stepText = (value: number) => (Number.isInteger(value) ? formatCount(value) : "");
/** A drag shorter than this is a click. */
const CLICK_PX = 4;

interface Drag {
  /** Where it began and where it is, in pixels. */
  from: number;
  to: number;
  /** The range when it began, for one that moves the range in place of selecting a part of it. */
  moves: Range | null;
}

export default function LineChart(props: LineChartProps) {
  const { lines, range, label, theme, version, cursor, onCursor, sync } = props;
  const { logY = false, marks, thresholds = NONE, gapMarks = true, limits = null, narrowest } = props;
  const { xText = stepText, xUnit = one, byLine = false } = props;
  const bounds = props.onRange ? (props.bounds ?? extentOf(lines)) : null;
  const [host, size] = useSize<HTMLDivElement>();
  const overlay = useRef<HTMLCanvasElement>(null);
  const plot = useRef<LinePlot | null>(null);
  const drag = useRef<Drag | null>(null);
  const latest = useRef({ props, bounds, byLine });
  latest.current = { props, bounds, byLine };
  const [margins, setMargins] = useState({ left: 0, right: 0 });

  const { plotRef } = props;
  useLayoutEffect(() => {
    if (host.current === null || overlay.current === null) return;
    const created = new LinePlot(host.current, overlay.current);
    plot.current = created;
    if (plotRef) plotRef.current = created;
    return () => {
      created.destroy();
      plot.current = null;
      if (plotRef) plotRef.current = null;
    };
  }, [host, plotRef]);

  const [from, to] = range;
  const [lowest, highest] = limits ?? [0, 0];
  // biome-ignore lint/correctness/useExhaustiveDependencies: the version says that columns grew in place
  useLayoutEffect(() => {
    if (size.width <= 0 || plot.current === null) return;
    const looks = { lines, theme, logY, marks, thresholds, gapMarks, xText, xUnit };
    plot.current.draw({ ...looks, range: [from, to], limits: limits && [lowest, highest] });
    const area = plot.current.area;
    if (area === null) return;
    const next = { left: Math.round(area.left), right: Math.round(size.width - area.left - area.width) };
    setMargins((old) => (old.left === next.left && old.right === next.right ? old : next));
  }, [
    lines,
    theme,
    version,
    from,
    to,
    logY,
    marks,
    thresholds,
    gapMarks,
    xText,
    xUnit,
    size,
    limits === null,
    lowest,
    highest,
  ]);
  useEffect(() => {
    if (document.fonts.status !== "loaded") void document.fonts.ready.then(() => plot.current?.redraw());
  }, []);

  const syncedX = useRef<number | null>(null);
  const drawPointer = useCallback(() => {
    const held = drag.current;
    const { cursor: own, cursorText } = latest.current.props;
    const isDrag = held !== null && held.moves === null && Math.abs(held.to - held.from) >= CLICK_PX;
    plot.current?.point({
      cursor: own,
      text: own === null ? undefined : cursorText?.(own.x),
      syncedX: syncedX.current,
      byLine: latest.current.byLine,
      selection: isDrag && latest.current.bounds !== null ? [held.from, held.to] : null,
    });
  }, []);
  // After the lines: a new picture has a new scale.
  useLayoutEffect(drawPointer);
  useEffect(
    () =>
      sync?.subscribe((x, source) => {
        syncedX.current = source === plot.current ? null : x;
        drawPointer();
      }),
    [sync, drawPointer],
  );

  const move = (next: Pointed | null) => {
    onCursor(next);
    sync?.set(next?.x ?? null, plot.current);
  };
  const offset = (event: { clientX: number; clientY: number }): [left: number, top: number] => {
    const box = host.current?.getBoundingClientRect();
    return [event.clientX - (box?.left ?? 0), event.clientY - (box?.top ?? 0)];
  };
  /** The point that was taken hold of stays under the pointer. */
  const moveRange = ({ from: start, to: end, moves }: Drag) => {
    const width = plot.current?.area?.width ?? 0;
    if (moves === null || bounds === null || width <= 0) return;
    props.onRange?.(panRange(moves, (start - end) / width, bounds, narrowest));
  };
  const onPointerMove = (event: PointerEvent) => {
    const [left, top] = offset(event);
    if (drag.current !== null) drag.current.to = left;
    if (drag.current?.moves) return moveRange(drag.current);
    const next = plot.current?.pointedAt(left, top, byLine) ?? null;
    if (next?.id !== cursor?.id || next?.index !== cursor?.index) move(next);
    else if (drag.current !== null) drawPointer();
  };
  const onPointerDown = (event: PointerEvent<HTMLElement>) => {
    const [left] = offset(event);
    if (event.button !== 0 || (plot.current?.xAt(left) ?? null) === null) return;
    drag.current = { from: left, to: left, moves: event.shiftKey && bounds !== null ? range : null };
    if (bounds !== null) event.currentTarget.setPointerCapture(event.pointerId);
  };
  const onPointerUp = (event: PointerEvent) => {
    const held = drag.current;
    drag.current = null;
    if (held === null) return;
    if (held.moves !== null) return;
    const [left, top] = offset(event);
    if (bounds !== null && Math.abs(left - held.from) >= CLICK_PX) {
      const ends = [held.from, left].map((at) => plot.current?.xAt(at, Number.POSITIVE_INFINITY) ?? 0);
      props.onRange?.(clampRange([Math.min(...ends), Math.max(...ends)], bounds, narrowest));
      return;
    }
    const hit = plot.current?.lineAt(left, top);
    if (hit) props.onPick?.(hit.id);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && props.keepsEscape) return;
    const result = keyResult(event.key, event.shiftKey, { lines, cursor, range, bounds, byLine, narrowest });
    if (result === null) return;
    event.preventDefault();
    if (result.kind === "cursor") move(result.cursor);
    else props.onRange?.(result.range);
  };
  // React's own wheel listener is passive, so the page could not be kept from scrolling.
  useEffect(() => {
    const element = host.current;
    const onWheel = (event: WheelEvent) => {
      const { props: now, bounds: all } = latest.current;
      const x = plot.current?.xAt(event.clientX - (element?.getBoundingClientRect().left ?? 0)) ?? null;
      if (all === null || x === null) return;
      const sideways = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
      if (Math.abs(sideways) >= Math.abs(event.deltaY) && sideways !== 0) {
        event.preventDefault();
        const width = plot.current?.area?.width ?? 1;
        return now.onRange?.(panRange(now.range, sideways / Math.max(width, 1), all, now.narrowest));
      }
      if (now.wheelScrolls) return;
      event.preventDefault();
      now.onRange?.(zoomRange(now.range, x, 1.2 ** Math.sign(event.deltaY), all, now.narrowest));
    };
    element?.addEventListener("wheel", onWheel, { passive: false });
    return () => element?.removeEventListener("wheel", onWheel);
  }, [host]);

  const keys =
    bounds === null
      ? "Arrows move the cursor."
      : "Arrows move the cursor, plus and minus zoom, Page Up and Page Down move, 0 shows all.";
  const everything = extentOf(lines);
  return (
    <>
      <div
        ref={host}
        role="img"
        aria-label={`${label} ${keys}`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrows move a cursor that is read out
        tabIndex={0}
        data-keys="own"
        onKeyDown={onKeyDown}
        onBlur={() => cursor !== null && move(null)}
        onPointerMove={onPointerMove}
        onPointerLeave={() => drag.current === null && move(null)}
        onPointerDown={onPointerDown}
        onPointerUp={onPointerUp}
        onDoubleClick={() => (props.onReset ? props.onReset() : props.onRange?.(null))}
        className="relative min-h-0 min-w-0 flex-1 touch-none overflow-hidden rounded-mark focus-visible:-outline-offset-2"
      >
        <canvas
          ref={overlay}
          className="pointer-events-none absolute inset-0 z-10 block"
          style={{ width: size.width, height: size.height }}
        />
      </div>
      {props.brush && everything !== null && (
        <div style={{ paddingLeft: margins.left, paddingRight: margins.right }}>
          <Brush
            lines={lines}
            extent={everything}
            range={range}
            onRange={(next) => props.onRange?.(next)}
            theme={theme}
          />
        </div>
      )}
    </>
  );
}
