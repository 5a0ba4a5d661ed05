/** What a matrix of cosines is made of, as it stands in the address and in the menu. */

import type { MatrixSource } from "@/api/types";
import type { CosineMatrix } from "@/live/forces";

export interface MatrixChoice {
  source: MatrixSource;
  /** Null for the tensor that the page shows. */
  tensor: string | null;
}

export const SOURCES: readonly { value: MatrixSource; label: string; short: string }[] = [
  { value: "weights", label: "Weights", short: "weights" },
  { value: "som_targets", label: "Targets", short: "targets" },
  { value: "grad_delta", label: "Gradient delta", short: "gradient" },
];

export function labelOf(source: MatrixSource): string {
  return SOURCES.find(({ value }) => value === source)?.label ?? source;
}

export function shortOf(source: MatrixSource): string {
  return SOURCES.find(({ value }) => value === source)?.short ?? source;
}

/** `weights`, or `weights decoder.weight` for another tensor. */
export function choiceText({ source, tensor }: MatrixChoice): string {
  return tensor === null ? source : `${source} ${tensor}`;
}

export function readChoice(text: string, fallback: MatrixSource): MatrixChoice {
  const [first = "", ...rest] = text.split(" ");
  const source = SOURCES.find(({ value }) => value === first)?.value ?? fallback;
  return { source, tensor: rest.length ? rest.join(" ") : null };
}

/** Name of a shown row: the tensor's row, or the rows that a block averages. */
export function rowName({ averaged, permutation, rows, side }: CosineMatrix, shown: number): string {
  if (!averaged) return String(permutation[shown] ?? shown);
  const start = Math.floor((shown * rows) / side);
  const end = Math.floor(((shown + 1) * rows) / side) - 1;
  return start === end ? String(permutation[start]) : `${start}–${end}`;
}

/** Row of the tensor at a shown position; null for a block. */
export function rowAt({ averaged, permutation }: CosineMatrix, shown: number): number | null {
  return averaged ? null : (permutation[shown] ?? null);
}

/** A matrix in its own order shown in that of another one of the same rows. */
export function inOrderOf(matrix: CosineMatrix, order: readonly number[]): CosineMatrix {
  const { side, values, permutation } = matrix;
  const indexOfRow = new Map(permutation.map((row, index) => [row, index]));
  const indices = order.map((row) => indexOfRow.get(row) ?? 0);
  const moved = new Float32Array(values.length);
  for (let row = 0; row < side; row += 1) {
    const start = (indices[row] as number) * side;
    for (let column = 0; column < side; column += 1)
      moved[row * side + column] = values[start + (indices[column] as number)] as number;
  }
  return { ...matrix, values: moved, permutation: order };
}
