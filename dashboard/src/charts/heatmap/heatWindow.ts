/** Which cells of a matrix are shown, how large they are, and which one lies under a point. */

export interface HeatCell {
  row: number;
  column: number;
}

/** The part of a matrix that is shown, in cells; fractions while one zooms. */
export interface HeatWindow {
  row: number;
  column: number;
  rows: number;
  columns: number;
}

/** The area a matrix is drawn on, in CSS pixels. */
export interface HeatArea {
  width: number;
  height: number;
}

const LARGEST_CELL = 40;
/** No closer than so many cells a side. */
const CLOSEST = 4;

export function wholeWindow(rows: number, columns: number): HeatWindow {
  return { row: 0, column: 0, rows, columns };
}

/** Whole pixels a cell where they fit; larger matrices are shrunk to the room there is. */
export function heatArea(rows: number, columns: number, room: HeatArea): HeatArea {
  const most = Math.min(room.width / Math.max(columns, 1), room.height / Math.max(rows, 1));
  const cell = most >= 1 ? Math.min(LARGEST_CELL, Math.floor(most)) : Math.max(most, 0);
  return { width: Math.floor(columns * cell), height: Math.floor(rows * cell) };
}

/** The same with cells that need not be square: a few long rows fill the room too. */
export function wideArea(rows: number, columns: number, room: HeatArea): HeatArea {
  const side = (length: number, count: number) => {
    const most = length / Math.max(count, 1);
    return Math.floor(count * (most >= 1 ? Math.min(LARGEST_CELL, Math.floor(most)) : Math.max(most, 0)));
  };
  return { width: side(room.width, columns), height: side(room.height, rows) };
}

/** The cell under a point of the area; null outside. */
export function cellAt(window: HeatWindow, area: HeatArea, x: number, y: number): HeatCell | null {
  if (x < 0 || y < 0 || x >= area.width || y >= area.height) return null;
  return {
    row: Math.floor(window.row + (y / area.height) * window.rows),
    column: Math.floor(window.column + (x / area.width) * window.columns),
  };
}

/** Where a cell lies on the area; it may lie outside. */
export function cellBox(
  window: HeatWindow,
  area: HeatArea,
  cell: HeatCell,
): { left: number; top: number; width: number; height: number } {
  const width = area.width / window.columns;
  const height = area.height / window.rows;
  return {
    left: (cell.column - window.column) * width,
    top: (cell.row - window.row) * height,
    width,
    height,
  };
}

/** The window scaled by `factor` about a point (shares of the area); whole when that shows everything. */
export function zoomWindow(
  window: HeatWindow,
  size: { rows: number; columns: number },
  factor: number,
  shareX: number,
  shareY: number,
): HeatWindow {
  const closest = Math.min(CLOSEST, size.rows, size.columns);
  const least = Math.max(closest / window.rows, closest / window.columns);
  const scale = Math.max(factor, least);
  const rows = Math.min(window.rows * scale, size.rows);
  const columns = Math.min(window.columns * scale, size.columns);
  return within(
    {
      row: window.row + shareY * (window.rows - rows),
      column: window.column + shareX * (window.columns - columns),
      rows,
      columns,
    },
    size,
  );
}

/** The window shifted by cells, kept inside the matrix. */
export function panWindow(
  window: HeatWindow,
  size: { rows: number; columns: number },
  rows: number,
  columns: number,
): HeatWindow {
  return within({ ...window, row: window.row + rows, column: window.column + columns }, size);
}

/** The window moved as little as needed to show a cell. */
export function showCell(
  window: HeatWindow,
  size: { rows: number; columns: number },
  { row, column }: HeatCell,
): HeatWindow {
  const shift = (at: number, start: number, length: number) =>
    at < start ? at - start : at + 1 > start + length ? at + 1 - start - length : 0;
  const rows = shift(row, window.row, window.rows);
  const columns = shift(column, window.column, window.columns);
  return rows === 0 && columns === 0 ? window : panWindow(window, size, rows, columns);
}

function within(window: HeatWindow, size: { rows: number; columns: number }): HeatWindow {
  const clamp = (value: number, most: number) => Math.min(Math.max(value, 0), Math.max(most, 0));
  return {
    ...window,
    row: clamp(window.row, size.rows - window.rows),
    column: clamp(window.column, size.columns - window.columns),
  };
}

const MOVES: Record<string, readonly [rows: number, columns: number]> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  PageUp: [-16, 0],
  PageDown: [16, 0],
  Home: [0, Number.NEGATIVE_INFINITY],
  End: [0, Number.POSITIVE_INFINITY],
};

/** Where a key leads from a cell; null for keys that do not move. */
export function moveCell(
  key: string,
  cell: HeatCell | null,
  size: { rows: number; columns: number },
): HeatCell | null {
  const by = MOVES[key];
  if (by === undefined) return null;
  if (cell === null) return { row: 0, column: 0 };
  const clamp = (value: number, most: number) => Math.min(Math.max(value, 0), most - 1);
  return { row: clamp(cell.row + by[0], size.rows), column: clamp(cell.column + by[1], size.columns) };
}
