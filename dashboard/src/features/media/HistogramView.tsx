/** Histograms over steps: steps to the right, values upwards, the share of a step's values as colour. */
import { useMemo, useState } from "react";
import type { MediaItem } from "@/api/types";
import type { Theme } from "@/charts/colors/viridis";
import { HeatMap } from "@/charts/heatmap/HeatMap";
import { presetScale } from "@/charts/heatmap/heatScale";
import { type HeatCell, type HeatWindow, wholeWindow, wideArea } from "@/charts/heatmap/heatWindow";
import { linearSplits, sameDecimals } from "@/charts/ticks";
import { useSize } from "@/charts/useSize";
import { formatCount, formatPercent, formatValue } from "@/lib/format";
import { GRID_ROWS, type HistogramGrid, histogramGrid, rowRange } from "./histogramGrid";

interface HistogramViewProps {
  name: string;
  items: readonly MediaItem[];
  /** Which of them the slider stands at. */
  index: number;
  theme: Theme;
}

const HEIGHT = 4 * GRID_ROWS;
const LEFT = 56;

export function HistogramView({ name, items, index, theme }: HistogramViewProps) {
  const [container, { width: room }] = useSize<HTMLDivElement>();
  const [pointed, setPointed] = useState<HeatCell | null>(null);
  const [window, setWindow] = useState<HeatWindow | null>(null);
  const grid = useMemo(() => histogramGrid(items.flatMap(({ histogram }) => histogram ?? [])), [items]);
  const scale = useMemo(() => grid && presetScale("range", grid.matrix.values, theme), [grid, theme]);
  if (grid === null || scale === null) return <p className="text-t3">No finite value was logged.</p>;
  const { columns } = grid.matrix;
  const { width } = wideArea(GRID_ROWS, columns, { width: room - LEFT, height: HEIGHT });
  const cursor = pointed !== null && pointed.column < columns ? pointed : null;
  const [low, high] = [formatValue(grid.low, 3), formatValue(grid.high, 3)];
  const ticks = linearSplits(grid.low, grid.high, 4);
  const labels = sameDecimals(ticks);
  const shown = window ?? wholeWindow(GRID_ROWS, columns);
  const mark = ((index + 0.5 - shown.column) / shown.columns) * width;
  return (
    <div ref={container} className="flex min-w-0 flex-col gap-1">
      <div className="relative" style={{ height: HEIGHT }}>
        {ticks.map((tick, at) => {
          const row = ((grid.high - tick) / (grid.high - grid.low)) * GRID_ROWS;
          const top = ((row - shown.row) / shown.rows) * HEIGHT;
          if (top < 0 || top > HEIGHT) return null;
          return (
            <span
              key={tick}
              className="absolute left-0 -translate-y-1/2 text-right text-label text-t3"
              style={{ width: LEFT - 8, top: Math.min(Math.max(top, 7), HEIGHT - 7) }}
            >
              {labels[at]}
            </span>
          );
        })}
        {width > 0 && (
          <div className="absolute top-0 flex" style={{ left: LEFT, width, height: HEIGHT }}>
            <HeatMap
              label={`${name}: histograms of ${columns} steps, values from ${low} to ${high}.`}
              matrix={grid.matrix}
              {...{ scale, theme, window, cursor }}
              onCursor={setPointed}
              onWindow={setWindow}
              wide
            />
            {mark >= 0 && mark <= width && (
              <span
                className="pointer-events-none absolute -bottom-1 size-2 -translate-x-1/2 rotate-45 border border-surface bg-accent"
                style={{ left: mark }}
              />
            )}
          </div>
        )}
      </div>
      <div className="flex justify-between text-label text-t3" style={{ marginLeft: LEFT, width }}>
        <span>{formatCount(items[Math.floor(shown.column)]?.step)}</span>
        <span>
          {formatCount(items[Math.min(columns, Math.ceil(shown.column + shown.columns)) - 1]?.step)}
        </span>
      </div>
      <p
        className="flex h-4 items-center gap-2 overflow-hidden text-label whitespace-nowrap text-t3"
        style={{ marginLeft: LEFT }}
        aria-live="polite"
      >
        {cursor !== null ? (
          <span className="truncate text-body text-t2">{readout(grid, items, cursor)}</span>
        ) : (
          <>
            0
            <span className="h-2 w-16 rounded-mark" style={{ background: scale.gradient }} />
            {formatPercent(scale.high, scale.high < 0.1 ? 1 : 0)} of a step’s values
          </>
        )}
      </p>
    </div>
  );
}

/** "step 120: 3.2 % from 0.1 to 0.2". */
function readout(grid: HistogramGrid, items: readonly MediaItem[], { row, column }: HeatCell): string {
  const [from, to] = rowRange(grid, row);
  const share = grid.matrix.values[row * grid.matrix.columns + column];
  return `step ${formatCount(items[column]?.step)}: ${formatPercent(share, 1)} from ${formatValue(from, 3)} to ${formatValue(to, 3)}`;
}
