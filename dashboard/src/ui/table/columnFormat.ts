/** How many decimals a column of numbers needs to be read down. */

import { formatExponent, formatFixed, formatValue, NONE } from "@/lib/format";
import type { Cell } from "./sortCells";

/** A way to write every number of one column. */
export type NumberStyle = { kind: "fixed"; decimals: number } | { kind: "exponent" } | { kind: "mixed" };

const SIGNIFICANT = 4;
/** Of a long column so many cells are looked at; its style is that of any fair share of it. */
const LOOKED_AT = 4_096;

/** The same decimals for all: whole numbers need none, others four figures (or as asked) of a middling one. */
export function columnStyle(cells: ArrayLike<Cell>, significant = SIGNIFICANT): NumberStyle {
  const sizes: number[] = [];
  let whole = true;
  const stride = Math.max(1, Math.floor(cells.length / LOOKED_AT));
  for (let index = 0; index < cells.length; index += stride) {
    const cell = cells[index];
    if (typeof cell !== "number" || !Number.isFinite(cell)) continue;
    whole &&= Number.isInteger(cell);
    if (cell !== 0) sizes.push(Math.abs(cell));
  }
  if (whole) return { kind: "fixed", decimals: 0 };
  sizes.sort((a, b) => a - b);
  const middle = sizes[sizes.length >> 1] ?? 1;
  const largest = sizes[sizes.length - 1] ?? 1;
  // Over many decades no number of decimals does: large ones are written plainly, tiny ones by their exponent.
  if (middle < 1e-4 && largest >= 0.01 && largest < 1e4) return { kind: "mixed" };
  if (middle < 1e-4 || largest >= 1e9) return { kind: "exponent" };
  const decimalsFor = (size: number, figures: number) => figures - Math.floor(Math.log10(size)) - 1;
  // Below one, four decimals are what a column is read with; the smallest keeps two figures where that is enough.
  const usual =
    middle < 0.01
      ? decimalsFor(middle, Math.min(3, significant))
      : Math.min(decimalsFor(middle, significant), significant);
  const wanted = Math.max(usual, Math.min(decimalsFor(sizes[0] ?? 1, 2), significant));
  // A column that reaches further up is read with four decimals; only the smallest lose figures.
  const most = largest >= 0.05 ? Math.max(SIGNIFICANT, significant) : 6;
  return { kind: "fixed", decimals: Math.min(most, Math.max(0, wanted)) };
}

const isPlain = (value: number): boolean => Math.abs(value) >= 1e-3 && Math.abs(value) < 1e6;

/** A cell in its column's style; texts stay as they are. */
export function cellText(cell: Cell, style: NumberStyle): string {
  if (cell === null || cell === undefined) return NONE;
  if (typeof cell !== "number") return String(cell);
  if (!Number.isFinite(cell)) return formatValue(cell);
  if (style.kind === "fixed") return formatFixed(cell, style.decimals);
  if (cell === 0) return "0";
  // What reads plainly has no exponent, also among the tiny and the huge: 6.482, not 6.482e0.
  if (style.kind === "exponent") return isPlain(cell) ? formatValue(cell) : formatExponent(cell, 3);
  return Math.abs(cell) >= 1e-3 ? formatFixed(cell, 4) : formatExponent(cell);
}
