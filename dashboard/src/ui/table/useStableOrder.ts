/** The order of a table's rows, held still while it is being read. */
import { useEffect, useMemo, useRef, useState } from "react";
import { nextTick, onFrameAt } from "@/lib/frameClock";
import { type Cell, compareCells, type Direction } from "./sortCells";

const RENEW_MS = 1_000;

export interface OrderRequest {
  columns: readonly { name: string; cells: ArrayLike<Cell> }[];
  rows?: readonly number[];
  sort: { column: string; direction: Direction } | null;
  /** Rows in the columns. */
  count: number;
  /** Whether values change by themselves now. */
  hold: boolean;
  hovered: boolean;
}

/** Row indices in sorted order; equal cells keep their order. */
export function orderOf({ columns, rows, sort, count }: OrderRequest): number[] {
  const order = rows ? [...rows] : Array.from({ length: count }, (_, index) => index);
  const cells = columns.find(({ name }) => name === sort?.column)?.cells;
  if (!sort || !cells) return order;
  return order.sort((a, b) => compareCells(cells[a], cells[b], sort.direction) || a - b);
}

/** Sorts at once when asked to; while values change by themselves at most once a second, never under the pointer. */
export function useStableOrder(request: OrderRequest): number[] {
  const { sort, count, rows, hold, hovered, columns } = request;
  const [, renew] = useState(0);
  const names = columns.map(({ name }) => name).join("\n");
  const kept = useRef({ columns, at: performance.now() });
  const dueAt = hold ? nextTick(kept.current.at, RENEW_MS) : 0;
  if (!hovered && performance.now() >= dueAt) kept.current = { columns, at: performance.now() };
  // With the values that come then, if any do: each drawing of a table costs.
  const isLate = !hovered && kept.current.columns !== columns;
  useEffect(() => {
    if (isLate) return onFrameAt(dueAt, () => renew((count) => count + 1));
  }, [isLate, dueAt]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: new values alone must not move the rows while held
  return useMemo(
    () => orderOf(request),
    [sort?.column, sort?.direction, count, rows, names, kept.current.columns],
  );
}
