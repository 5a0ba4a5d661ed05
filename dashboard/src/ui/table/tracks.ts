/** Widths of the columns of a table, as tracks of a grid. */

import type { NumberStyle } from "./columnFormat";
import type { TableColumn } from "./columns";

export interface Tracks {
  gridTemplateColumns: string;
  minWidth: number;
}

interface TrackOptions {
  /** Width of the buttons at the end of a row. */
  actions?: number;
  /** The column whose head has an arrow. */
  sorted?: string | null;
}

/**
 * The first column names the row: narrow and on the left, numbers too. Below the least widths the table scrolls.
 *
 * Room beyond them is shared by what the columns need for their whole titles and texts.
 */
export function tracksOf(
  columns: readonly TableColumn[],
  styles: readonly NumberStyle[],
  { actions = 0, sorted = null }: TrackOptions = {},
): Tracks {
  const least = columns.map(({ numeric, title, name, track }, index) => {
    if (track) return track.least;
    if (index === 0 && numeric) return 52;
    if (numeric) return numberWidth(styles[index] as NumberStyle, title ?? name);
    const wished = wishedWidth(columns[index] as TableColumn, null);
    // Names such as `embedding.weight` are not cut; a word with its mark needs less.
    return index === 0 ? clamp(wished, 92, 124) : clamp(wished + MARK, 72, 92);
  });
  const tracks = least.map((width, index) => {
    const column = columns[index] as TableColumn;
    if (column.track) return column.track.width;
    if (index === 0 && column.numeric) return `${Math.max(width, wishedWidth(column, sorted))}px`;
    return `minmax(${width}px,${Math.max(width, wishedWidth(column, sorted))}fr)`;
  });
  if (actions > 0) tracks.push(`${actions}px`);
  return {
    gridTemplateColumns: tracks.join(" "),
    minWidth: least.reduce((sum, width) => sum + width, 24 + actions),
  };
}

const clamp = (value: number, least: number, most: number) => Math.min(most, Math.max(least, value));

/** Wide enough that no number of this style below a hundred is cut, with its sign, nor a short title. */
function numberWidth(style: NumberStyle, title: string): number {
  const characters = style.kind === "fixed" ? style.decimals + 3 : style.kind === "mixed" ? 7 : 9;
  return Math.max(56, characters * 6.8 + 12, Math.min(title.length * 5.8 + 20, 80));
}

const LETTER = 5.8;
const ARROW = 14;
/** The mark before a word such as a status. */
const MARK = 20;
/** Rows whose texts decide how wide a column would like to be. */
const LOOKED_AT = 64;
const WIDEST_TEXT = 176;

/** What the whole title takes, and of a column of texts the longest of the first ones. */
function wishedWidth({ title, name, cells, numeric }: TableColumn, sorted: string | null): number {
  const head = (title ?? name).length * LETTER + 12 + (sorted === name ? ARROW : 0);
  if (numeric) return Math.ceil(head);
  let longest = 0;
  for (let row = 0; row < Math.min(cells.length, LOOKED_AT); row += 1)
    longest = Math.max(longest, String(cells[row] ?? "").length);
  return Math.ceil(Math.max(head, Math.min(longest * 6.6 + 12, WIDEST_TEXT)));
}
