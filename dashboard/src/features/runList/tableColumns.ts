/** Widths, titles and number styles of the table's columns. */
import type { RunRow } from "@/api/types";
import { columnStyle, type NumberStyle } from "@/ui/table/columnFormat";
import { valueText } from "./cells";
import { columnTitles } from "./columns";
import { cellOf } from "./values";

export interface Column {
  key: string;
  title: string;
  right: boolean;
  style: NumberStyle;
  track: string;
  least: number;
}

/** Tracks of the grid that every line shares. */
export interface Tracks {
  gridTemplateColumns: string;
  minWidth: number;
}

const [SWATCH, NAME, STATE, AGE] = [24, 124, 122, 40];

export function tracksOf(columns: readonly Column[]): Tracks {
  const between = columns.map(({ track }) => track);
  return {
    gridTemplateColumns: [
      `${SWATCH}px`,
      `minmax(${NAME}px,1.6fr)`,
      `${STATE}px`,
      ...between,
      `${AGE}px`,
    ].join(" "),
    minWidth: columns.reduce((sum, { least }) => sum + least, SWATCH + NAME + STATE + AGE + 24),
  };
}

/** Width of the table beside the curves on the smallest screen that we lay out for, 1280 pixels wide. */
const TABLE_WIDTH = 744;

/** As many of the usual columns as fit beside the curves: settings go first, the last of them before the others. */
export function fitting(rows: ReadonlyMap<string, RunRow>, keys: readonly string[]): string[] {
  const columns = describe(rows, keys);
  while (tracksOf(columns).minWidth > TABLE_WIDTH) {
    const last = columns.findLastIndex(({ key }) => key.startsWith("config."));
    if (last < 0) break;
    columns.splice(last, 1);
  }
  return columns.map(({ key }) => key);
}

/** Rows whose texts decide how wide a column is. */
const LOOKED_AT = 200;

/** Classes of a line and of a cell in it. */
export const LINE = "grid items-center px-3";
export const CELL = "min-w-0 truncate pr-2";

export function describe(rows: ReadonlyMap<string, RunRow>, keys: readonly string[]): Column[] {
  const titles = columnTitles(keys);
  const runs = [...rows.values()];
  return keys.map((key) => {
    const cells = runs.map((run) => cellOf(run, key));
    const right = key !== "progress" && cells.some((cell) => typeof cell === "number");
    const title = titles.get(key) as string;
    const style = columnStyle(cells);
    const texts = runs.slice(0, LOOKED_AT).map((run) => (right ? valueText(run, key, style).length : 0));
    const letters = Math.max(...texts, 0);
    const wished = Math.max(right ? 52 : 72, letters * 7 + 10, Math.min(title.length * 6 + 22, 84));
    const least = key === "progress" ? 96 : Math.min(120, wished);
    const track = key === "progress" ? "96px" : `minmax(${least}px,${right ? 0.5 : 0.8}fr)`;
    return { key, title, right, style, track, least };
  });
}
