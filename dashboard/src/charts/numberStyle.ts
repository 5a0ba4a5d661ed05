/** How many decimals a column of numbers needs to be read down. */

import { formatExponent, formatFixed, formatValue, NONE } from "@/lib/format";
import type { Cell } from "./order";

/** A way to write every number of one column. */
export type NumberStyle = { kind: "fixed"; decimals: number } | { kind: "exponent" };

const SIGNIFICANT = 4;

/** The same decimals for all: whole numbers need none, others four figures of a middling one. */
export function columnStyle(cells: ArrayLike<Cell>): NumberStyle {
  const sizes: number[] = [];
  let whole = true;
  for (let index = 0; index < cells.length; index += 1) {
    const cell = cells[index];
    if (typeof cell !== "number" || !Number.isFinite(cell)) continue;
    whole &&= Number.isInteger(cell);
    if (cell !== 0) sizes.push(Math.abs(cell));
  }
  if (whole) return { kind: "fixed", decimals: 0 };
  sizes.sort((a, b) => a - b);
  const middle = sizes[sizes.length >> 1] ?? 1;
  const largest = sizes[sizes.length - 1] ?? 1;
  if (middle < 1e-4 || largest >= 1e9) return { kind: "exponent" };
  const decimalsFor = (size: number, figures: number) => figures - Math.floor(Math.log10(size)) - 1;
  // Below one, four decimals are what a column is read with; the smallest keeps two figures where that is enough.
  const usual =
    middle < 0.01 ? decimalsFor(middle, 3) : Math.min(decimalsFor(middle, SIGNIFICANT), SIGNIFICANT);
  const wanted = Math.max(usual, Math.min(decimalsFor(sizes[0] ?? 1, 2), SIGNIFICANT));
  return { kind: "fixed", decimals: Math.min(6, Math.max(0, wanted)) };
}

/** A cell in its column's style; texts stay as they are. */
export function cellText(cell: Cell, style: NumberStyle): string {
  if (cell === null || cell === undefined) return NONE;
  if (typeof cell !== "number") return String(cell);
  if (!Number.isFinite(cell)) return formatValue(cell);
  return style.kind === "fixed" ? formatFixed(cell, style.decimals) : formatExponent(cell, 3);
}
