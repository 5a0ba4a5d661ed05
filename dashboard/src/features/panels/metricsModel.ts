/** The rows of a metrics table: the row's name, its status, then the columns of the hint. */

import { capitalised, countStatus, type StatusCount, statusOf } from "@/lib/rowStatus";
import type { Sort, TableColumn } from "@/ui/table/DataTable";
import type { Cell } from "@/ui/table/sortCells";
import { columnsOf, type Hinted, numbersOf } from "./hint";

export interface MetricsTable {
  columns: TableColumn[];
  /** Name of the column that stands for the row itself. */
  rowName: string;
  statusName: string | null;
  counts: StatusCount[];
  rows: number;
}

/** A name that no column has. */
function freeName(wanted: readonly string[], taken: ReadonlySet<string>): string {
  return wanted.find((name) => !taken.has(name)) ?? `${wanted[0]} `;
}

export function metricsTable(entry: Hinted): MetricsTable {
  const { panel } = entry;
  const own = columnsOf(entry);
  const taken = new Set(own.map(({ name }) => name));
  const rows = own[0]?.cells.length ?? 0;
  const named = own.find(({ name }) => name === panel.label);
  const rowName = named?.name ?? freeName(["row", "#", "row number"], taken);
  const first: TableColumn = named
    ? { ...named, title: capitalised(named.title ?? named.name) }
    : {
        name: rowName,
        title: panel.source === null ? "Row" : "Feature",
        cells: Uint32Array.from({ length: rows }, (_, index) => index),
        numeric: true,
      };
  const rest = own.filter((column) => column !== named);
  const rule = panel.status;
  const judged = rule === null ? undefined : own.find(({ name }) => name === rule.field);
  if (rule === null || judged === undefined)
    return { columns: [first, ...rest], rowName, statusName: null, counts: [], rows };
  const values = numbersOf(judged);
  const statusName = freeName(["status", "state"], taken);
  const words: Cell[] = Array.from(values, (value) => {
    const status = statusOf(rule, value);
    return status === null ? null : capitalised(status.word);
  });
  const status: TableColumn = { name: statusName, title: "Status", cells: words, numeric: false };
  return { columns: [first, status, ...rest], rowName, statusName, counts: countStatus(rule, values), rows };
}

/** The order that the hint wants at first. */
export function hintedSort({ panel }: Hinted): Sort | null {
  if (panel.sort === null) return null;
  return { column: panel.sort.field, direction: panel.sort.descending ? "descending" : "ascending" };
}
