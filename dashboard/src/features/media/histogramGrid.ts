/** Histograms of many steps as one matrix: a column a step, values upwards, shares of each step's values. */
import type { HistogramOut } from "@/api/types";
import type { HeatMatrix } from "@/charts/heatmap/HeatMap";

/** Rows of the matrix; each histogram has its own range, so its counts are spread over these. */
export const GRID_ROWS = 48;

export interface HistogramGrid {
  matrix: HeatMatrix;
  /** Values at the lower edge of the last row and the upper edge of the first. */
  low: number;
  high: number;
}

/** Null where there is nothing to draw. */
export function histogramGrid(histograms: readonly HistogramOut[]): HistogramGrid | null {
  const drawn = histograms.filter(({ counts }) => counts.length > 0);
  if (drawn.length === 0) return null;
  const low = Math.min(...drawn.map((one) => one.low));
  const high = Math.max(...drawn.map((one) => one.high));
  if (!(high > low)) return null;
  const columns = histograms.length;
  const values = new Float32Array(GRID_ROWS * columns);
  histograms.forEach((histogram, column) => {
    for (const [row, share] of sharesOf(histogram, low, high).entries())
      values[row * columns + column] = share;
  });
  return { matrix: { rows: GRID_ROWS, columns, values }, low, high };
}

/** The share of a histogram's values in each row, the highest values first. A bin is spread evenly over its rows. */
function sharesOf({ counts, low: from, high: to }: HistogramOut, low: number, high: number): number[] {
  const shares = Array<number>(GRID_ROWS).fill(0);
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return shares;
  const perRow = (high - low) / GRID_ROWS;
  const width = (to - from) / counts.length;
  counts.forEach((count, bin) => {
    if (count === 0) return;
    const start = (from + bin * width - low) / perRow;
    const stop = Math.min(start + Math.max(width / perRow, 1e-9), GRID_ROWS);
    for (let row = Math.min(Math.floor(start), GRID_ROWS - 1); row < stop && row < GRID_ROWS; row += 1) {
      const part = Math.min(row + 1, stop) - Math.max(row, start);
      const above = GRID_ROWS - 1 - row;
      shares[above] = (shares[above] ?? 0) + ((part / (stop - start)) * count) / total;
    }
  });
  return shares;
}

/** The values that a row stands for. */
export function rowRange({ low, high }: HistogramGrid, row: number): [from: number, to: number] {
  const perRow = (high - low) / GRID_ROWS;
  return [high - (row + 1) * perRow, high - row * perRow];
}
