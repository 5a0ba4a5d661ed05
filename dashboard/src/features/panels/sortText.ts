import type { Sort } from "@/ui/table/DataTable";

/** A sort as it stands in the address: `win_rate` for descending, `-win_rate` for ascending. */
export function sortText({ column, direction }: Sort): string {
  return direction === "descending" ? column : `-${column}`;
}

export function readSort(text: string): Sort | null {
  if (text === "") return null;
  return text.startsWith("-")
    ? { column: text.slice(1), direction: "ascending" }
    : { column: text, direction: "descending" };
}
