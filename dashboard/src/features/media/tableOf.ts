/** A logged table as columns. */
import type { MediaContent } from "@/api/types";
import type { TableColumn } from "@/ui/table/DataTable";
import type { Cell } from "@/ui/table/sortCells";

/** On the wire NaN and the infinities are words, as text may be; in a column of numbers they are numbers. */
const WORDS = new Set<unknown>(["NaN", "Infinity", "-Infinity"]);

const isNumber = (cell: unknown) => typeof cell === "number" || WORDS.has(cell);

/** The columns of a table with the number of the row in front, as sorting moves rows. */
export function numberedTable(content: MediaContent): TableColumn[] {
  const taken = new Set(content.columns);
  const name = ["row", "#", "row number"].find((one) => !taken.has(one)) ?? "";
  return [{ name, cells: content.rows.map((_, index) => index), numeric: true }, ...tableOf(content)];
}

/** The columns of a table. Two columns of one name are told apart by their place. */
export function tableOf({ columns, rows }: MediaContent): TableColumn[] {
  return columns.map((title, index) => {
    const given = rows.map((row) => row[index] ?? null);
    const numeric =
      given.some((cell) => typeof cell === "number") &&
      given.every((cell) => cell === null || isNumber(cell));
    const cells = given.map((cell): Cell => {
      if (cell === null) return null;
      if (numeric) return Number(cell);
      return typeof cell === "boolean" ? String(cell) : cell;
    });
    const name = columns.indexOf(title) === index ? title : `${title} (${index + 1})`;
    return {
      name,
      title,
      cells,
      numeric,
      titleOf: numeric ? undefined : (row) => (cells[row] === null ? undefined : String(cells[row])),
    };
  });
}
