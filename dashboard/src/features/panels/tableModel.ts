/** Step data as rows: columns with their row number, filter, statistics, export. */
import { fromWire, type TensorSummary } from "@/api/types";
import { summarise } from "@/lib/statistics";
import { csvOf } from "@/ui/export/csv";
import type { TableColumn } from "@/ui/table/DataTable";
import type { Cell } from "@/ui/table/sortCells";
import type { Shaped } from "./dataShape";

type Table = Extract<Shaped, { kind: "table" }>;
type Matrix = Extract<Shaped, { kind: "matrix" }>;

/** The columns with the row's number in front, under a name that no column has. */
export function tableColumns({ columns, rows }: Table): TableColumn[] {
  const numbers = Array.from({ length: rows }, (_, index) => index);
  const taken = new Set(columns.map(({ name }) => name));
  const name = ["row", "#", "row number"].find((one) => !taken.has(one)) ?? "";
  return [{ name, cells: numbers, numeric: true }, ...columns];
}

const COMPARED = /^\s*([^<>=!]+?)\s*(<=|>=|<|>|=)\s*(-?[\d.]+(?:e-?\d+)?)\s*$/i;

/**
 * Indices of the rows that match: `win_rate > 0.05` compares a column, a whole number is a row, other text is looked for.
 *
 * Null when there is nothing to filter by.
 */
export function filterRows(columns: readonly TableColumn[], filter: string): number[] | null {
  const wanted = filter.trim().toLowerCase();
  if (wanted === "") return null;
  const all = Array.from({ length: columns[0]?.cells.length ?? 0 }, (_, index) => index);
  const compared = COMPARED.exec(wanted);
  const column = compared && columns.find(({ name }) => name.toLowerCase() === compared[1]);
  if (compared && column) {
    const holds = comparison(compared[2] as string, Number(compared[3]));
    return all.filter((row) => holds(column.cells[row]));
  }
  if (/^\d+$/.test(wanted)) return all.filter((row) => row === Number(wanted));
  return all.filter((row) => columns.some(({ cells }) => String(cells[row]).toLowerCase().includes(wanted)));
}

/** Why a filter finds nothing it could have meant, in words; null when it is fine or simply matches no row. */
export function filterProblem(columns: readonly TableColumn[], filter: string): string | null {
  const wanted = filter.trim().toLowerCase();
  if (!/[<>=!]/.test(wanted)) return null;
  const compared = COMPARED.exec(wanted);
  const column = compared && columns.find(({ name }) => name.toLowerCase() === compared[1]);
  if (column?.numeric) return null;
  // The signs may stand in the texts themselves.
  if (!column && filterRows(columns, filter)?.length) return null;
  if (column) return `${column.name} holds text. Type the word to look for.`;
  if (compared) return `There is no column ${compared[1]}.`;
  const example = columns.findLast(({ numeric }) => numeric)?.name ?? "row";
  return `This does not parse. Write a column, a sign and a number: ${example} > 0.5`;
}

function comparison(operator: string, limit: number): (cell: Cell) => boolean {
  const tests: Record<string, (value: number) => boolean> = {
    "<": (value) => value < limit,
    "<=": (value) => value <= limit,
    ">": (value) => value > limit,
    ">=": (value) => value >= limit,
    "=": (value) => value === limit,
  };
  return (cell) => typeof cell === "number" && (tests[operator]?.(cell) ?? false);
}

/** A tensor's statistics as a list. */
export function statistics(summary: TensorSummary): [string, Cell][] {
  const { shape, dtype, elements, finite, mean, std, min, max } = summary;
  return [
    ["shape", shape.join(" × ")],
    ["dtype", dtype],
    ["elements", elements],
    ["not finite", elements - finite],
    ["mean", fromWire(mean)],
    ["std", fromWire(std)],
    ["min", fromWire(min)],
    ["max", fromWire(max)],
  ];
}

/** Statistics of a matrix that came whole. */
export function matrixStatistics({ values }: Matrix): [string, Cell][] {
  const { count, finite, mean, deviation, minimum, maximum } = summarise(values);
  return [
    ["mean", mean],
    ["std", deviation],
    ["min", minimum],
    ["max", maximum],
    ["not finite", count - finite],
  ];
}

/** As comma-separated lines, where the shape has rows; null where it has none. */
export function csvOfShaped(shaped: Shaped): string | null {
  switch (shaped.kind) {
    case "table":
      return csvOf(tableColumns(shaped));
    case "matrix": {
      const { rows, columns, values } = shaped;
      return csvOf(
        Array.from({ length: columns }, (_, column) => ({
          name: String(column),
          cells: Array.from({ length: rows }, (_, row) => values[row * columns + column] as number),
        })),
      );
    }
    case "entries":
      return csvOf([
        { name: "name", cells: shaped.entries.map(([name]) => name) },
        { name: "value", cells: shaped.entries.map(([, value]) => value) },
      ]);
    default:
      return null;
  }
}
