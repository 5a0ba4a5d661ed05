/** What a piece of step data looks like, so that it can be shown without knowing who pushed it. */

import type { TensorSummary } from "@/api/types";
import type { Cell } from "@/ui/table/sortCells";

export interface Column {
  name: string;
  cells: Cell[];
  numeric: boolean;
}

export type Shaped =
  | { kind: "table"; columns: Column[]; rows: number; rest: [string, Shaped][] }
  | { kind: "matrix"; rows: number; columns: number; values: Float64Array }
  | { kind: "entries"; entries: [string, Cell][] }
  | { kind: "summary"; summary: TensorSummary }
  | { kind: "group"; members: [string, Shaped][] }
  | { kind: "scalar"; value: Cell }
  | { kind: "text"; text: string };

/** Strings that stand for the numbers strict JSON has no sign for. */
export function readCell(value: unknown): Cell {
  if (value === "NaN") return Number.NaN;
  if (value === "Infinity") return Number.POSITIVE_INFINITY;
  if (value === "-Infinity") return Number.NEGATIVE_INFINITY;
  if (typeof value === "number" || typeof value === "string" || typeof value === "boolean") return value;
  return null;
}

function isCell(value: unknown): boolean {
  return value === null || ["number", "string", "boolean"].includes(typeof value);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function isSummary(value: unknown): value is TensorSummary {
  return isObject(value) && value.summary === true && Array.isArray(value.shape);
}

function isVector(value: unknown): value is unknown[] {
  return Array.isArray(value) && value.length > 0 && value.every(isCell);
}

/** A list of equally long lists of numbers. */
function isMatrix(value: unknown): value is unknown[][] {
  if (!Array.isArray(value) || !value.length || !Array.isArray(value[0])) return false;
  const width = value[0].length;
  return (
    width > 0 &&
    value.every(
      (row) =>
        Array.isArray(row) && row.length === width && row.every((cell) => typeof readCell(cell) === "number"),
    )
  );
}

/** Chooses how to show `data`; every value ends up somewhere, nothing is left out. */
export function shapeOf(data: unknown): Shaped {
  if (isSummary(data)) return { kind: "summary", summary: data };
  if (isMatrix(data)) return matrix(data);
  if (isVector(data)) return { kind: "table", columns: [column("value", data)], rows: data.length, rest: [] };
  if (isObject(data)) return shapeOfMapping(data);
  if (Array.isArray(data) && data.length && data.every(isObject)) return records(data);
  if (Array.isArray(data) && data.length) return group(data.map((value, index) => [String(index), value]));
  return isCell(data)
    ? { kind: "scalar", value: readCell(data) }
    : { kind: "text", text: JSON.stringify(data) };
}

function shapeOfMapping(data: Record<string, unknown>): Shaped {
  const entries = Object.entries(data);
  if (!entries.length) return { kind: "text", text: "{}" };
  if (entries.every(([, value]) => isCell(value))) {
    return { kind: "entries", entries: entries.map(([name, value]) => [name, readCell(value)]) };
  }
  const rows = commonLength(entries);
  return rows === null ? group(entries) : table(entries, rows);
}

/** The length most vectors share, or null when there is no vector longer than one. */
function commonLength(entries: [string, unknown][]): number | null {
  const counts = new Map<number, number>();
  for (const [, value] of entries) {
    if (isVector(value) && value.length > 1) counts.set(value.length, (counts.get(value.length) ?? 0) + 1);
  }
  const [most] = [...counts].sort((a, b) => b[1] - a[1] || b[0] - a[0]);
  return most ? most[0] : null;
}

function table(entries: [string, unknown][], rows: number): Shaped {
  const fits = (value: unknown) => isVector(value) && value.length === rows;
  const columns = entries
    .filter(([, value]) => fits(value))
    .map(([name, value]) => column(name, value as unknown[]));
  const rest = entries
    .filter(([, value]) => !fits(value))
    .map(([name, value]): [string, Shaped] => [name, shapeOf(value)]);
  return { kind: "table", columns, rows, rest };
}

function records(data: Record<string, unknown>[]): Shaped {
  const names = [...new Set(data.flatMap((row) => Object.keys(row)))];
  if (!data.every((row) => Object.values(row).every(isCell))) {
    return group(data.map((value, index) => [String(index), value]));
  }
  const columns = names.map((name) =>
    column(
      name,
      data.map((row) => row[name] ?? null),
    ),
  );
  return { kind: "table", columns, rows: data.length, rest: [] };
}

function group(entries: [string, unknown][]): Shaped {
  return { kind: "group", members: entries.map(([name, value]) => [name, shapeOf(value)]) };
}

function column(name: string, values: unknown[]): Column {
  const cells = values.map(readCell);
  return { name, cells, numeric: cells.every((cell) => cell === null || typeof cell === "number") };
}

function matrix(data: unknown[][]): Shaped {
  const columns = (data[0] as unknown[]).length;
  const values = new Float64Array(data.length * columns);
  data.forEach((row, y) => {
    row.forEach((cell, x) => {
      values[y * columns + x] = readCell(cell) as number;
    });
  });
  return { kind: "matrix", rows: data.length, columns, values };
}

/** Whether it makes a table: what the Step tab shows first. */
export function looksLikeTable(data: unknown): boolean {
  const shaped = shapeOf(data);
  return shaped.kind === "table" && shaped.columns.length > 0;
}
