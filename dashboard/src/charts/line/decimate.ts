/** Which points of a long series to draw: at most a few per pixel column, extremes always kept. */

/** First index in `steps[0..length)` that is not below `wanted`; `steps` never falls. */
export function lowerBound(steps: ArrayLike<number>, length: number, wanted: number): number {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((steps[middle] as number) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

export interface Window {
  /** First index drawn. */
  start: number;
  /** One past the last index drawn. */
  stop: number;
}

/** The indices inside `[minimum, maximum]` and one neighbour each side, so that lines run off the edge. */
export function visibleWindow(
  steps: ArrayLike<number>,
  length: number,
  minimum: number,
  maximum: number,
): Window {
  const start = Math.max(0, lowerBound(steps, length, minimum) - 1);
  const stop = Math.min(length, lowerBound(steps, length, maximum) + 2);
  return { start, stop: Math.max(start, stop) };
}

/**
 * Indices of the minimum, the maximum and the first gap of each of `columns` pixel columns.
 *
 * Short windows come back whole. The indices rise, so every series that shares them can be gathered in one pass.
 */
export function decimate(
  steps: ArrayLike<number>,
  values: ArrayLike<number>,
  window: Window,
  columns: number,
): Uint32Array {
  const { start, stop } = window;
  const count = stop - start;
  if (count <= columns * 2) return Uint32Array.from({ length: count }, (_, index) => start + index);
  const kept = new Uint32Array(columns * 3 + 2);
  const first = steps[start] as number;
  const perStep = columns / Math.max((steps[stop - 1] as number) - first, 1e-300);
  let size = 0;
  let index = start;
  while (index < stop) {
    const column = Math.min(columns - 1, Math.floor(((steps[index] as number) - first) * perStep));
    let lowest = -1;
    let highest = -1;
    let gap = -1;
    for (; index < stop; index += 1) {
      const target = Math.floor(((steps[index] as number) - first) * perStep);
      if (target > column && column < columns - 1) break;
      const value = values[index] as number;
      if (Number.isNaN(value)) gap = gap < 0 ? index : gap;
      else {
        if (lowest < 0 || value < (values[lowest] as number)) lowest = index;
        if (highest < 0 || value > (values[highest] as number)) highest = index;
      }
    }
    size = keepRising(kept, size, lowest, highest, gap);
  }
  return kept.subarray(0, size);
}

function keepRising(kept: Uint32Array, size: number, a: number, b: number, c: number): number {
  const low = Math.min(a, b, c);
  const high = Math.max(a, b, c);
  const middle = a + b + c - low - high;
  let end = size;
  for (const index of [low, middle, high]) {
    if (index >= 0 && (end === size || index !== kept[end - 1])) {
      kept[end] = index;
      end += 1;
    }
  }
  return end;
}

/** Values at `indices`, with what cannot be drawn (NaN, an infinity, or ≤ 0 on a log scale) as a gap. */
export function gather(values: ArrayLike<number>, indices: Uint32Array, logScale = false): (number | null)[] {
  const gathered: (number | null)[] = new Array(indices.length);
  for (let slot = 0; slot < indices.length; slot += 1) {
    const value = values[indices[slot] as number] as number;
    gathered[slot] = Number.isFinite(value) && !(logScale && value <= 0) ? value : null;
  }
  return gathered;
}
