/** The images of a batch on one canvas, with a cursor that the arrows move. */
import { type KeyboardEvent, type PointerEvent, useEffect, useId, useMemo, useRef } from "react";
import type { GridOut } from "@/api/types";
import type { Theme } from "@/charts/colors/viridis";
import { layOutTiles, moveInGrid, type TileLayout, tileAt, tileUnder } from "@/charts/tiles/tileLayout";
import { useSize } from "@/charts/useSize";
import { drawGrid, gridColours, MARGIN } from "./drawGrid";
import { sampleText } from "./SampleLine";
import type { Sample } from "./samples";

interface TileGridProps {
  /** Index of the batch, for tests and for those who look into the page. */
  step: number;
  picture: ImageBitmap;
  grid: GridOut;
  samples: readonly Sample[];
  /** What the losses are multiplied by before they are written below the tiles. */
  factor: number;
  /** Indices into the batch in the order they are shown. */
  order: readonly number[];
  /** Index in `order` of the sample under the cursor. */
  cursor: number | null;
  onCursor: (cursor: number | null) => void;
  pointedOut: ReadonlySet<number>;
  theme: Theme;
  /** Draws into this canvas, so that the panel can export it. */
  canvasRef: (canvas: HTMLCanvasElement | null) => void;
}

export function TileGrid(props: TileGridProps) {
  const { step, picture, grid, samples, factor, order, cursor, onCursor, pointedOut, theme, canvasRef } =
    props;
  const [container, area] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const cellId = useId();
  const aspect = grid.tile_width / grid.tile_height;
  const layout = useMemo(
    () => layOutTiles(order.length, { width: area.width - 24, height: area.height - MARGIN }, aspect),
    [order.length, area.width, area.height, aspect],
  );

  useEffect(() => {
    const element = canvas.current;
    if (!element || !area.width) return;
    const ratio = devicePixelRatio;
    element.width = (area.width - 24 + 2 * MARGIN) * ratio;
    element.height = (layout.totalHeight + MARGIN) * ratio;
    const draw = () =>
      drawGrid(
        element,
        { picture, grid, samples, factor, order, layout, theme, colours: gridColours(element), pointedOut },
        ratio,
      );
    draw();
    // The captions are drawn again once the font is there; until then the system's stands in.
    if (document.fonts.status !== "loaded") void document.fonts.ready.then(draw);
  }, [picture, grid, samples, factor, order, layout, theme, pointedOut, area.width]);

  useEffect(() => {
    if (cursor === null || cursor >= order.length || !area.width) return;
    const element = container.current;
    if (element) keepInSight(element, tileAt(layout, cursor).y, layout.pitchY);
  }, [cursor, order.length, layout, area.width, container]);

  useEffect(() => {
    if (pointedOut.size) container.current?.focus({ preventScroll: true });
  }, [pointedOut, container]);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") return onCursor(null);
    const next = moveInGrid(event.key, cursor ?? 0, layout.columns, order.length);
    if (next === null) return;
    event.preventDefault();
    onCursor(cursor === null ? 0 : next);
  };
  const onPointerDown = (event: PointerEvent<HTMLCanvasElement>) => {
    const { left, top } = event.currentTarget.getBoundingClientRect();
    const hit = tileUnder(layout, order.length, event.clientX - left - MARGIN, event.clientY - top - MARGIN);
    if (hit !== null) onCursor(hit);
  };
  const focused = cursor === null ? undefined : samples[order[cursor] as number];

  return (
    <div
      ref={container}
      role="grid"
      aria-label={`Batch of ${order.length} samples`}
      aria-rowcount={layout.rows}
      aria-colcount={layout.columns}
      aria-activedescendant={focused ? cellId : undefined}
      tabIndex={0}
      data-keys="own"
      data-step={step}
      onKeyDown={onKeyDown}
      // The rings of the first row reach into the header.
      className="relative -mt-1 min-h-0 flex-1 overflow-x-hidden overflow-y-auto px-3 pt-1 focus-visible:-outline-offset-2"
    >
      <canvas
        ref={(element) => {
          canvas.current = element;
          canvasRef(element);
        }}
        onPointerDown={onPointerDown}
        className="block"
        style={{
          width: area.width - 24 + 2 * MARGIN,
          height: layout.totalHeight + MARGIN,
          // Below the last row there is a caption, so no ring needs room there.
          margin: `${-MARGIN}px ${-MARGIN}px 0`,
          imageRendering: "pixelated",
        }}
      />
      {focused && cursor !== null && <Cursor id={cellId} layout={layout} cursor={cursor} sample={focused} />}
    </div>
  );
}

interface CursorProps {
  id: string;
  layout: TileLayout;
  cursor: number;
  sample: Sample;
}

/** The ring around one tile; also the cell that is read out. */
function Cursor({ id, layout, cursor, sample }: CursorProps) {
  const { x, y, width, height } = tileAt(layout, cursor);
  return (
    <div role="row" tabIndex={-1} aria-rowindex={Math.floor(cursor / layout.columns) + 1}>
      <div
        id={id}
        role="gridcell"
        tabIndex={-1}
        aria-selected
        aria-colindex={(cursor % layout.columns) + 1}
        aria-label={sampleText(sample)}
        className={`pointer-events-none absolute rounded-mark outline-2 outline-accent ${sample.isOutlier ? "outline-offset-2" : "outline-offset-1"}`}
        style={{ left: x + 12, top: y + MARGIN, width, height }}
      />
    </div>
  );
}

function keepInSight(scroller: HTMLElement, top: number, height: number): void {
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  else if (top + height > scroller.scrollTop + scroller.clientHeight) {
    scroller.scrollTop = top + height - scroller.clientHeight;
  }
}
