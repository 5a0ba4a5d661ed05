/** The batch as a table: for samples that are no images, for the table view, and for export. */
import { type BatchOut, fromWire } from "@/api/types";
import type { TableColumn } from "@/ui/table/DataTable";
import type { Samples } from "./samples";

/** Values of a sample beyond these stay out of the table; the export has them all. */
const SHOWN_VALUES = 12;

export function sampleColumns(batch: BatchOut, { all, lossRange }: Samples): TableColumn[] {
  const columns: TableColumn[] = [{ name: "sample", cells: all.map(({ id }) => id), numeric: true }];
  if (batch.labels) columns.push({ name: "label", cells: all.map(({ label }) => label), numeric: false });
  if (lossRange) columns.push({ name: "loss", cells: all.map(({ loss }) => loss), numeric: true });
  const width = Math.min(SHOWN_VALUES, batch.rows?.[0]?.length ?? 0);
  for (let index = 0; index < width; index += 1) {
    const values = all.map(({ batchIndex }) => fromWire(batch.rows?.[batchIndex]?.[index]));
    // A token is a name, not a quantity: it gets no thousands separator.
    const cells =
      batch.kind === "tokens" ? values.map((value) => (value === null ? null : String(value))) : values;
    columns.push({ name: `value ${index}`, title: String(index), cells, numeric: true });
  }
  return columns;
}
