/** The list as a file: what the table shows, in full precision. */
import type { RunRow } from "@/api/types";
import { downloadText } from "@/lib/download";
import { csvOf, jsonOf } from "@/ui/export/csv";
import type { TableItem } from "./grouping";
import { cellOf } from "./values";

const ALWAYS = ["name", "state", "directory", "step", "total_steps", "started_at"];

/** The rows in the order of the table. */
function listed(rows: ReadonlyMap<string, RunRow>, items: readonly TableItem[]): RunRow[] {
  return items.flatMap((item) => (item.kind === "run" ? (rows.get(item.id) ?? []) : []));
}

export function runsCsv(
  rows: ReadonlyMap<string, RunRow>,
  items: readonly TableItem[],
  columns: readonly string[],
): string {
  const runs = listed(rows, items);
  const keys = [...new Set([...ALWAYS, ...columns])];
  return csvOf([
    { name: "id", cells: runs.map(({ id }) => id) },
    ...keys.map((key) => ({
      name: key,
      cells: runs.map((run) => (key === "total_steps" ? run.total_steps : cellOf(run, key))),
    })),
  ]);
}

export function saveRunsCsv(...table: Parameters<typeof runsCsv>): void {
  downloadText("runs.csv", runsCsv(...table), "text/csv");
}

export function saveRunsJson(rows: ReadonlyMap<string, RunRow>, items: readonly TableItem[]): void {
  downloadText("runs.json", jsonOf(listed(rows, items)), "application/json");
}
