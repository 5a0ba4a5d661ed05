/** What a panel shows, as files. */
import { downloadBlob, downloadText } from "@/lib/download";
import type { MenuItem } from "@/ui";
import type { Cell } from "@/ui/table/sortCells";
import { csvOf, jsonOf } from "./csv";
import { panelToPng } from "./panelToPng";

export interface Column {
  name: string;
  cells: ArrayLike<Cell>;
}

/** PNG of the panel around `container`, CSV of the columns, JSON of all its data. */
export function exportItems(
  name: string,
  container: () => Element | null,
  columns: () => Column[],
  body: () => unknown,
): MenuItem[] {
  const png = async () => {
    const blob = await panelToPng(container());
    if (blob) downloadBlob(`${name}.png`, blob);
  };
  return [
    { label: "PNG", onSelect: () => void png() },
    { label: "CSV", onSelect: () => downloadText(`${name}.csv`, csvOf(columns()), "text/csv") },
    { label: "JSON", onSelect: () => downloadText(`${name}.json`, jsonOf(body()), "application/json") },
  ];
}
