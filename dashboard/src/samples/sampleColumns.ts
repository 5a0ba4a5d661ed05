/** The samples of a batch as columns: for the table, and for export as CSV. */
import { type BatchOut, fromWire } from "@/api/types";
import type { TableColumn } from "@/ui/table/DataTable";
import type { Cell } from "@/ui/table/sortCells";
import type { Samples } from "./samples";

/** Values of a sample without names beyond these stay out of the table; the export has them all. */
const SHOWN_VALUES = 12;
const NON_FINITE = new Set(["NaN", "Infinity", "-Infinity"]);

type WireCell = number | string | null | undefined;

/** Columns of numbers, where some are words for what is not finite, as numbers; others as they are. */
function cellsOf(wire: readonly WireCell[]): { cells: Cell[]; numeric: boolean } {
  const isNumber = (cell: WireCell) =>
    cell == null || typeof cell === "number" || NON_FINITE.has(cell as string);
  if (!wire.some((cell) => typeof cell === "number") || !wire.every(isNumber))
    return { cells: [...wire], numeric: false };
  return { cells: wire.map((cell) => fromWire(cell as Parameters<typeof fromWire>[0])), numeric: true };
}

/** Names that occur once only, as a table needs them. */
class Names {
  private readonly taken = new Map<string, number>();

  unique(name: string): string {
    const count = this.taken.get(name) ?? 0;
    this.taken.set(name, count + 1);
    return count === 0 ? name : `${name} (${count + 1})`;
  }
}

export interface ColumnOptions {
  /** Whether values beyond those that are shown are left out. */
  short: boolean;
}

export function sampleColumns(batch: BatchOut, samples: Samples, { short }: ColumnOptions): TableColumn[] {
  const { all, lossRange } = samples;
  const names = new Names();
  const columns: TableColumn[] = [];
  const add = (name: string, wire: readonly WireCell[], rest: Partial<TableColumn> = {}) =>
    columns.push({ name: names.unique(name), ...cellsOf(wire), marksNan: true, ...rest });

  add(
    "sample",
    all.map(({ id }) => id),
    { numeric: true, title: "Sample" },
  );
  if (batch.texts) add("text", batch.texts, { title: "Text" });
  if (batch.labels) add("target", batch.labels, { title: "Target", ...asClass(batch.labels) });
  for (const { name, role, cells } of batch.columns ?? []) if (role === "target") add(name, cells);
  if (batch.predictions)
    add("prediction", batch.predictions, { title: "Prediction", ...asClass(batch.predictions) });
  if (batch.probabilities && !short) add("probability", batch.probabilities);
  if (lossRange)
    add(
      "loss",
      all.map(({ loss }) => loss),
      { marksNan: false, title: "Loss" },
    );
  if (batch.loss_shares && !short) add("share of the loss", batch.loss_shares);
  for (const { name, role, cells } of batch.columns ?? []) if (role === "input") add(name, cells);
  if (batch.kind === "tokens" && batch.rows)
    add(
      "tokens",
      batch.rows.map((row) => row.join(" ")),
      { title: "Tokens" },
    );
  else addValues(batch, short, add);
  return columns;
}

type AddColumn = (name: string, wire: readonly WireCell[], rest?: Partial<TableColumn>) => void;

/** A column for each value of rows without names. */
function addValues({ rows }: BatchOut, short: boolean, add: AddColumn): void {
  const width = Math.max(0, ...(rows ?? []).map((row) => row.length));
  for (let index = 0; index < (short ? Math.min(SHOWN_VALUES, width) : width); index += 1)
    add(`value ${index}`, rows?.map((row) => row[index]) ?? [], { title: String(index), numeric: true });
}

/** Classes are names, so they are not aligned as numbers. */
function asClass(wire: readonly WireCell[]): Partial<TableColumn> {
  const isClass = wire.every(
    (cell) => Number.isInteger(cell) || (typeof cell === "string" && !NON_FINITE.has(cell)),
  );
  return isClass ? { numeric: false } : {};
}
