/** A matrix on a canvas: zoom by wheel, pan by drag, a cursor that the pointer or the arrows move. */
import {
  type KeyboardEvent,
  type PointerEvent,
  type ReactNode,
  type RefObject,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import type { Rgb, Theme } from "@/charts/colors/viridis";
import { useSize } from "@/charts/useSize";
import { type HeatScale, heatPixels } from "./heatScale";
import {
  cellAt,
  cellBox,
  type HeatCell,
  type HeatWindow,
  heatArea,
  moveCell,
  panWindow,
  showCell,
  wholeWindow,
  wideArea,
  zoomWindow,
} from "./heatWindow";

export interface HeatMatrix {
  rows: number;
  columns: number;
  values: ArrayLike<number>;
}

interface HeatMapProps {
  /** Said to those who cannot see it; what it is and its range. */
  label: string;
  matrix: HeatMatrix;
  scale: HeatScale;
  theme: Theme;
  /** The cell under the cursor, as shown. */
  cursor: HeatCell | null;
  onCursor: (cell: HeatCell | null) => void;
  /** A click or Enter on a cell. */
  onPick?: (cell: HeatCell) => void;
  /** The part that is shown; all of it when null. */
  window: HeatWindow | null;
  onWindow: (window: HeatWindow | null) => void;
  /** A colour for each shown row, as a strip on the left. */
  strip?: readonly string[] | null;
  /** Cells need not be square. */
  wide?: boolean;
  /** One line directly below the map. */
  footer?: ReactNode;
  /** Told how high the map is drawn. */
  onHeight?: (height: number) => void;
  /** Beside the cursor while the pointer is over the map. */
  readout?: ReactNode;
  canvasRef?: RefObject<HTMLCanvasElement | null>;
}

const BROKEN: Record<Theme, Rgb> = { light: [204, 59, 40], dark: [242, 112, 92] };
const STRIP = 8;
const FOOTER = 28;

export function HeatMap(props: HeatMapProps) {
  const { label, matrix, scale, theme, cursor, onCursor, onPick, onWindow, strip, readout } = props;
  const [container, room] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [pointed, setPointed] = useState(false);
  const left = strip ? STRIP : 0;
  const { rows, columns } = matrix;
  const below = props.footer === undefined ? 0 : FOOTER;
  const { onHeight, canvasRef, wide } = props;
  const area = useMemo(() => {
    const within = { width: room.width - left, height: room.height - below };
    return (wide ? wideArea : heatArea)(rows, columns, within);
  }, [wide, rows, columns, room, left, below]);
  useEffect(() => onHeight?.(area.height), [onHeight, area.height]);
  const shown = useMemo(() => props.window ?? wholeWindow(rows, columns), [props.window, rows, columns]);
  const ratio = window.devicePixelRatio;
  const picture = useMemo(() => pictureOf(matrix, scale, theme), [matrix, scale, theme]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the ratio changes with the screen the window is on
  useLayoutEffect(() => {
    const element = canvas.current;
    if (!element || area.width <= 0) return;
    draw(element, picture, shown, area, strip ?? null, left, ratio);
    if (canvasRef) canvasRef.current = element;
  }, [picture, shown, area, strip, left, ratio, canvasRef]);

  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    // React's own wheel listener is passive, so the page could not be kept from scrolling.
    const onWheel = (event: WheelEvent) => {
      event.preventDefault();
      const shareX = (event.offsetX - left) / area.width;
      const shareY = event.offsetY / area.height;
      const next = zoomWindow(shown, matrix, 1.25 ** Math.sign(event.deltaY), shareX, shareY);
      onWindow(next.rows >= rows && next.columns >= columns ? null : next);
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  });

  const dragged = useRef<{ x: number; y: number; moved: boolean } | null>(null);
  const move = (event: PointerEvent<HTMLCanvasElement>) => {
    const { offsetX, offsetY } = event.nativeEvent;
    const from = dragged.current;
    if (from && props.window !== null) {
      const [dx, dy] = [offsetX - from.x, offsetY - from.y];
      if (from.moved || Math.abs(dx) + Math.abs(dy) > 3) {
        dragged.current = { x: offsetX, y: offsetY, moved: true };
        onWindow(
          panWindow(shown, matrix, (-dy / area.height) * shown.rows, (-dx / area.width) * shown.columns),
        );
        return;
      }
    }
    setPointed(true);
    onCursor(cellAt(shown, area, offsetX - left, offsetY));
  };
  const press = (event: PointerEvent<HTMLCanvasElement>) => {
    dragged.current = { x: event.nativeEvent.offsetX, y: event.nativeEvent.offsetY, moved: false };
    event.currentTarget.setPointerCapture(event.pointerId);
  };
  const release = (event: PointerEvent<HTMLCanvasElement>) => {
    const moved = dragged.current?.moved ?? true;
    dragged.current = null;
    const { offsetX, offsetY } = event.nativeEvent;
    const cell = moved ? null : cellAt(shown, area, offsetX - left, offsetY);
    if (cell) onPick?.(cell);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      onCursor(null);
      return onWindow(null);
    }
    if (event.key === "Enter" && cursor) return onPick?.(cursor);
    if (event.key === "+" || event.key === "-") {
      const next = zoomWindow(shown, matrix, event.key === "+" ? 0.8 : 1.25, 0.5, 0.5);
      return onWindow(next.rows >= rows && next.columns >= columns ? null : next);
    }
    const next = moveCell(event.key, cursor, matrix);
    if (next === null) return;
    event.preventDefault();
    setPointed(false);
    onCursor(next);
    if (props.window !== null) onWindow(showCell(shown, matrix, next));
  };

  const box = cursor && cursor.row < rows && cursor.column < columns ? cellBox(shown, area, cursor) : null;
  const seen = box && box.left > -box.width && box.left < area.width && box.top < area.height ? box : null;
  return (
    <div
      ref={container}
      role="img"
      aria-label={`${label} Arrows move the cursor, plus and minus zoom.`}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrows move a cursor that is read out
      tabIndex={0}
      data-keys="own"
      onKeyDown={onKeyDown}
      className="relative min-h-0 min-w-0 flex-1"
    >
      <canvas
        ref={canvas}
        onPointerMove={move}
        onPointerDown={press}
        onPointerUp={release}
        onPointerLeave={() => {
          dragged.current = null;
          setPointed(false);
          onCursor(null);
        }}
        onDoubleClick={() => onWindow(null)}
        className="absolute top-0 left-0 block rounded-mark"
        style={{ width: area.width + left, height: area.height }}
      />
      {props.footer !== undefined && (
        <div className="absolute inset-x-0" style={{ top: area.height, height: FOOTER }}>
          {props.footer}
        </div>
      )}
      {seen && <CellMark box={seen} left={left} />}
      {seen && pointed && readout && <Readout box={seen} left={left} room={room} content={readout} />}
    </div>
  );
}

interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** A square around the cell that can be seen on any colour. */
function CellMark({ box, left }: { box: Box; left: number }) {
  const width = Math.max(box.width, 6);
  const height = Math.max(box.height, 6);
  return (
    <span
      className="pointer-events-none absolute border border-text outline outline-surface"
      style={{
        left: left + box.left + (box.width - width) / 2,
        top: box.top + (box.height - height) / 2,
        width,
        height,
      }}
    />
  );
}

function Readout({
  box,
  left,
  room,
  content,
}: {
  box: Box;
  left: number;
  room: { width: number; height: number };
  content: ReactNode;
}) {
  const rightwards = left + box.left + box.width / 2 < room.width / 2;
  const downwards = box.top + box.height / 2 < room.height / 2;
  const x = left + box.left + box.width / 2;
  const y = box.top + box.height / 2;
  return (
    <div
      className="pointer-events-none absolute z-20 rounded-layer bg-surface px-2 py-1.5 whitespace-nowrap shadow-layer"
      style={{
        ...(rightwards ? { left: x + 12 } : { right: room.width - x + 12 }),
        ...(downwards ? { top: y + 10 } : { bottom: room.height - y + 10 }),
      }}
    >
      {content}
    </div>
  );
}

/** One pixel a cell; drawn to the screen by the browser at any size. */
function pictureOf(
  { rows, columns, values }: HeatMatrix,
  scale: HeatScale,
  theme: Theme,
): OffscreenCanvas | null {
  if (rows === 0 || columns === 0) return null;
  const canvas = new OffscreenCanvas(columns, rows);
  const pixels = heatPixels(values, scale, BROKEN[theme]);
  canvas.getContext("2d")?.putImageData(new ImageData(pixels, columns, rows), 0, 0);
  return canvas;
}

function draw(
  element: HTMLCanvasElement,
  picture: OffscreenCanvas | null,
  window: HeatWindow,
  area: { width: number; height: number },
  strip: readonly string[] | null,
  left: number,
  ratio: number,
): void {
  element.width = Math.round((area.width + left) * ratio);
  element.height = Math.round(area.height * ratio);
  const context = element.getContext("2d");
  if (!context || !picture || !element.height) return;
  const cell = (area.width / window.columns) * ratio;
  // Cells below a pixel are averaged, larger ones keep their edges.
  context.imageSmoothingEnabled = cell < 1;
  context.imageSmoothingQuality = "medium";
  const x = left * ratio;
  context.drawImage(
    picture,
    window.column,
    window.row,
    window.columns,
    window.rows,
    x,
    0,
    element.width - x,
    element.height,
  );
  if (!strip) return;
  const height = element.height / window.rows;
  for (let row = Math.floor(window.row); row < Math.min(strip.length, window.row + window.rows); row += 1) {
    context.fillStyle = strip[row] as string;
    context.fillRect(0, (row - window.row) * height, (STRIP / 2) * ratio, Math.max(height, 1));
  }
}
