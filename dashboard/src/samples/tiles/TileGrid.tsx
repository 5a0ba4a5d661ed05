/** The samples of a batch as tiles on one canvas, with a cursor that the arrows move. */
import { type KeyboardEvent, type PointerEvent, useEffect, useId, useMemo, useRef, useState } from "react";
import type { BatchRange } from "@/api/tiles";
import type { Theme } from "@/charts/colors/viridis";
import {
  BATCH_TILES,
  extendLayout,
  layOutTiles,
  moveInGrid,
  type TileLayout,
  type TileOptions,
  tileAt,
  tilesInView,
  tileUnder,
} from "@/charts/tiles/tileLayout";
import { useSize } from "@/charts/useSize";
import { sampleText } from "@/samples/SampleLine";
import { MAX_SHOWN, type Sample, type Samples, SHOWN_AT_FIRST, sampleAt } from "@/samples/samples";
import { type DrawBody, drawTiles, gridColours, MARGIN } from "./drawTiles";

/** What every grid of samples gets from its panel. */
export interface SampleGridProps {
  /** Index of the batch, for tests and for those who look into the page. */
  step: number;
  samples: Samples;
  /** What the losses are multiplied by before they are written below the tiles. */
  factor: number;
  /** Indices into the batch in the order they are shown. */
  order: readonly number[];
  /** Index in `order` of the sample under the cursor. */
  cursor: number | null;
  onCursor: (cursor: number | null) => void;
  /** The sample under the cursor is to be shown at full size. */
  onOpen: () => void;
  /** Other samples came into view. */
  onRange: (range: BatchRange) => void;
  pointedOut: ReadonlySet<number>;
  /** Positions of the samples that stopped the run. */
  culprits: readonly number[];
  theme: Theme;
  /** Draws into this canvas, so that the panel can export it. */
  canvasRef: (canvas: HTMLCanvasElement | null) => void;
}

interface TileGridProps extends SampleGridProps {
  /** Width of a tile by its height. */
  aspect: number;
  options?: TileOptions;
  /** Draws one sample into its tile; another function means that the tiles look different now. */
  drawBody: DrawBody;
}

export function TileGrid(props: TileGridProps) {
  const { step, samples, factor, order, cursor, onCursor, onOpen, onRange, pointedOut, culprits } = props;
  const { theme, canvasRef, aspect, options = BATCH_TILES, drawBody } = props;
  const [container, area] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const cellId = useId();
  const [scrollTop, setScrollTop] = useState(0);
  // Tiles are as large as fits those that are loaded before anything is scrolled.
  const fitting = samples.all.length < samples.total ? Math.min(SHOWN_AT_FIRST, order.length) : order.length;
  const layout = useMemo(() => {
    const space = { width: area.width - 24, height: area.height - MARGIN };
    return extendLayout(layOutTiles(fitting, space, aspect, options), order.length);
  }, [fitting, order.length, area.width, area.height, aspect, options]);

  useEffect(() => {
    const element = canvas.current;
    if (!element || !area.width) return;
    const ratio = devicePixelRatio;
    element.width = (area.width - 24 + 2 * MARGIN) * ratio;
    element.height = area.height * ratio;
    const draw = () => {
      const colours = gridColours(element);
      const marked = { pointedOut, culprits };
      const drawn = { samples, factor, order, layout, scrollTop, theme, colours, drawBody, ...marked };
      drawTiles(element, drawn, ratio);
    };
    draw();
    // The captions are drawn again once the font is there; until then the system's stands in.
    if (document.fonts.status !== "loaded") void document.fonts.ready.then(draw);
  }, [
    drawBody,
    samples,
    factor,
    order,
    layout,
    scrollTop,
    theme,
    pointedOut,
    culprits,
    area.width,
    area.height,
  ]);

  const range = rangeInView(layout, order.length, scrollTop, area.height);
  useEffect(() => {
    if (area.height > 0) onRange({ first: range.first, count: range.count });
  }, [range.first, range.count, area.height, onRange]);

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
    if (event.key === "Enter" && cursor !== null) return onOpen();
    const next = moveInGrid(event.key, cursor ?? 0, layout.columns, order.length);
    if (next === null) return;
    event.preventDefault();
    onCursor(cursor === null ? 0 : next);
  };
  const onPointerDown = (event: PointerEvent<HTMLCanvasElement>) => {
    const { left, top } = event.currentTarget.getBoundingClientRect();
    const y = event.clientY - top - MARGIN + scrollTop;
    const hit = tileUnder(layout, order.length, event.clientX - left - MARGIN, y);
    if (hit === null) return;
    // A second click on the same sample shows it at full size.
    if (hit === cursor) onOpen();
    else onCursor(hit);
  };
  const focused = cursor === null ? undefined : sampleAt(samples, order[cursor]);

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
      onScroll={(event) => setScrollTop(event.currentTarget.scrollTop)}
      // The rings of the first row reach into the header.
      className="relative -mt-1 min-h-0 flex-1 overflow-x-hidden overflow-y-auto px-3 pt-1 focus-visible:-outline-offset-2"
    >
      {/* As high as all rows; the canvas shows those in view. Below the last row no ring needs room. */}
      <div style={{ height: layout.totalHeight, margin: `${-MARGIN}px ${-MARGIN}px 0` }}>
        <canvas
          ref={(element) => {
            canvas.current = element;
            canvasRef(element);
          }}
          onPointerDown={onPointerDown}
          className="sticky -top-px block"
          style={{
            width: area.width - 24 + 2 * MARGIN,
            height: area.height,
            imageRendering: "pixelated",
          }}
        />
      </div>
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

/** The samples to load: the first ones until something is scrolled, then the rows in view. */
function rangeInView(layout: TileLayout, count: number, top: number, height: number): BatchRange {
  if (top < layout.pitchY / 2) return { first: 0, count: SHOWN_AT_FIRST };
  const [first, stop] = tilesInView(layout, count, top, height);
  return { first, count: Math.min(MAX_SHOWN, stop - first) };
}

function keepInSight(scroller: HTMLElement, top: number, height: number): void {
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  else if (top + height > scroller.scrollTop + scroller.clientHeight) {
    scroller.scrollTop = top + height - scroller.clientHeight;
  }
}
