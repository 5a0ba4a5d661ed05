/** Samples as rows of named values. */
import { useMemo, useState } from "react";
import type { BatchOut } from "@/api/types";
import { sampleColumns } from "@/samples/sampleColumns";
import type { Order, Samples } from "@/samples/samples";
import type { Sort, TableColumn } from "@/ui/table/DataTable";
import { LazyDataTable } from "@/ui/table/LazyDataTable";

export interface SampleRowsProps {
  batch: BatchOut;
  samples: Samples;
  /** Indices into the batch in the order they are shown. */
  batchIndices: readonly number[];
  order: Order;
  onOrder: (order: Order) => void;
  cursor: number | null;
  onCursor: (cursor: number | null) => void;
  /** The sample under the cursor is to be shown at full size. */
  onOpen: () => void;
  /** The last of the loaded rows came into sight. */
  onEnd: () => void;
  running: boolean;
}

export default function SampleTable({ batch, samples, ...rows }: SampleRowsProps) {
  const columns = useMemo(() => spaced(sampleColumns(batch, samples, { short: true })), [batch, samples]);
  return <SortedRows columns={columns} first={samples.first} {...rows} />;
}

/** A text to the right of a number stands apart from it. */
function spaced(columns: TableColumn[]): TableColumn[] {
  return columns.map((plain, index) => {
    const titleOf = (row: number) => String(plain.cells[row] ?? "");
    const column = plain.numeric ? plain : { ...plain, titleOf, headTitle: plain.name };
    if (column.numeric || !columns[index - 1]?.numeric) return column;
    return {
      ...column,
      look: "pl-4",
      head: <span className="truncate pl-4">{column.title ?? column.name}</span>,
    };
  });
}

interface SortedRowsProps extends Omit<SampleRowsProps, "batch" | "samples"> {
  columns: ReturnType<typeof sampleColumns>;
  /** Index in the batch of the first row. */
  first: number;
}

/** A table of samples whose order is also that of the panel: by loss, or as the loader gave them. */
export function SortedRows({
  columns,
  first,
  batchIndices,
  order,
  onOrder,
  cursor,
  onCursor,
  ...rest
}: SortedRowsProps) {
  const [sort, setSort] = useState<Sort | null>(null);
  const shown: Sort | null =
    order === "loss"
      ? { column: "loss", direction: sort?.column === "loss" ? sort.direction : "descending" }
      : sort;
  return (
    <LazyDataTable
      label="Samples of the batch"
      columns={columns}
      sort={shown}
      onSort={(next) => {
        setSort(next);
        onOrder(next.column === "loss" ? "loss" : "loader");
      }}
      selected={cursor === null ? null : (batchIndices[cursor] ?? first) - first}
      onSelect={(row) => onCursor(batchIndices.indexOf(row + first))}
      onOpen={rest.onOpen}
      onEnd={rest.onEnd}
      running={rest.running}
    />
  );
}
