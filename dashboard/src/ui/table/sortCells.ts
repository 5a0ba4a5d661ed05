/** Orders that keep NaN and missing values last, whichever way they run. */

export type Direction = "ascending" | "descending";
export type Cell = number | string | boolean | null | undefined;

function missing(cell: Cell): boolean {
  return cell === null || cell === undefined || (typeof cell === "number" && Number.isNaN(cell));
}

/** Numbers by size, texts by language rules with digits as numbers, missing ones last. */
export function compareCells(a: Cell, b: Cell, direction: Direction): number {
  const missingA = missing(a);
  const missingB = missing(b);
  if (missingA || missingB) return Number(missingA) - Number(missingB);
  const sign = direction === "ascending" ? 1 : -1;
  if (typeof a === "number" && typeof b === "number") return sign * (a < b ? -1 : a > b ? 1 : 0);
  return sign * String(a).localeCompare(String(b), "en", { numeric: true });
}

/** The indices 0…n−1 sorted by `cells`; equal cells keep their order. */
export function sortedIndices(cells: ArrayLike<Cell>, direction: Direction): Uint32Array {
  const indices = Array.from({ length: cells.length }, (_, index) => index);
  indices.sort((a, b) => compareCells(cells[a], cells[b], direction) || a - b);
  return Uint32Array.from(indices);
}

/** Rank of each value, 1 for the largest; NaN ranks last. */
export function ranksFromLargest(values: ArrayLike<number>): Uint32Array {
  const ranks = new Uint32Array(values.length);
  sortedIndices(Array.from(values), "descending").forEach((index, rank) => {
    ranks[index] = rank + 1;
  });
  return ranks;
}
