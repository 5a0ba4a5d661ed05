/** What a panel shows, as files. */
import { csvOf, jsonOf } from "@/charts/csv";
import type { Cell } from "@/charts/order";
import { pngOfPanel } from "@/charts/panelPng";
import { downloadBlob, downloadText } from "@/lib/download";
import type { MenuItem } from "@/ui";

export interface Column {
  name: string;
  cells: ArrayLike<Cell>;
}

/** PNG of the panel around `place`, CSV of the columns, JSON of all that stands behind it. */
export function filesOf(
  name: string,
  place: () => Element | null,
  columns: () => Column[],
  body: () => unknown,
): MenuItem[] {
  const png = async () => {
    const blob = await pngOfPanel(place());
    if (blob) downloadBlob(`${name}.png`, blob);
  };
  return [
    { label: "PNG", onSelect: () => void png() },
    { label: "CSV", onSelect: () => downloadText(`${name}.csv`, csvOf(columns()), "text/csv") },
    { label: "JSON", onSelect: () => downloadText(`${name}.json`, jsonOf(body()), "application/json") },
  ];
}
