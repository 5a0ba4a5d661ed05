/** Columns, order and groups of a table. */
import type { ReactNode } from "react";
import type { Cell, Direction } from "./sortCells";
import type { RowGroup } from "./tableItems";

export interface TableColumn {
  name: string;
  title?: string;
  cells: ArrayLike<Cell>;
  numeric: boolean;
  /** Figures its numbers are written with. */
  significant?: number;
  /** Draws a cell itself; the cells stay what is sorted, filtered and exported. */
  render?: (row: number) => ReactNode;
  /** Draws the head itself; `title` still names it. */
  head?: ReactNode;
  /** The whole of what a cell may cut off, or what its head stands for. */
  titleOf?: (row: number) => string | undefined;
  headTitle?: string;
  /** Width of the column as a grid track with its least width in pixels; by its numbers when left out. */
  track?: { width: string; least: number };
  /** Whether its head sorts; all do where the table sorts. */
  sortable?: boolean;
  /** Which way the first click sorts; numbers fall, texts rise when left out. */
  firstSort?: Direction;
  /** Class names of its cells. */
  look?: string;
  /** Its cells name their rows. */
  rowHeader?: boolean;
  /** Numbers that are not finite have a ground of their own: they are inputs, not measurements. */
  marksNan?: boolean;
}

export interface Sort {
  column: string;
  direction: Direction;
}

/** A group of rows with a line of its own above them. */
export interface TableGroup extends RowGroup {
  /** What it is called, also for those who cannot see it. */
  label: string;
  fact?: ReactNode;
  /** Drawn under a column, such as the mean of the group. */
  value?: { column: string; content: ReactNode; title?: string };
}

/** Largest values first is what one wants of numbers, A to Z of texts; a second click turns it round. */
export function nextSort(sort: Sort | null, { name, numeric, firstSort }: TableColumn): Sort {
  if (sort?.column !== name)
    return { column: name, direction: firstSort ?? (numeric ? "descending" : "ascending") };
  return { column: name, direction: sort.direction === "ascending" ? "descending" : "ascending" };
}
