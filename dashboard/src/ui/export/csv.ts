/** Tables as text. Full precision: what is exported is what was measured, not what was shown. */
import type { Cell } from "@/ui/table/sortCells";

function quoted(cell: Cell): string {
  if (cell === null || cell === undefined) return "";
  const text = String(cell);
  // A leading = + @ would be run as a formula by a spreadsheet; numbers keep their sign.
  const safe = typeof cell === "string" && /^[=+@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Comma-separated lines with a head, by columns. */
export function csvOf(columns: readonly { name: string; cells: ArrayLike<Cell> }[]): string {
  const rows = Math.max(0, ...columns.map(({ cells }) => cells.length));
  const lines = [columns.map(({ name }) => quoted(name)).join(",")];
  for (let row = 0; row < rows; row += 1)
    lines.push(columns.map(({ cells }) => quoted(cells[row])).join(","));
  return `${lines.join("\r\n")}\r\n`;
}

/** Strict JSON of anything the panel shows, NaN and the infinities as strings. */
export function jsonOf(value: unknown): string {
  const odd = (_: string, part: unknown) =>
    typeof part === "number" && !Number.isFinite(part) ? String(part) : part;
  return `${JSON.stringify(value, odd, 2)}\n`;
}
