/** Which part of the x axis is shown: zoomed, moved, kept inside. */
import type { Range } from "./lines";

/** No range is narrower than this, so that the first steps do not fill the chart. */
export const NARROWEST = 20;

/** A range inside `bounds`, no narrower than can be read; of whole steps where the narrowest one has a step. */
export function clampRange([from, to]: Range, bounds: Range, narrowest = NARROWEST): Range {
  const span = Math.min(Math.max(to - from, narrowest), bounds[1] - bounds[0]);
  const middle = (from + to) / 2;
  const start = Math.min(Math.max(middle - span / 2, bounds[0]), bounds[1] - span);
  return narrowest >= 1 ? [Math.round(start), Math.round(start + span)] : [start, start + span];
}

/** `range` scaled by `factor` about `at`; null when that would show more than there is. */
export function zoomRange(
  range: Range,
  at: number,
  factor: number,
  bounds: Range,
  narrowest = NARROWEST,
): Range | null {
  const from = at - (at - range[0]) * factor;
  const to = at + (range[1] - at) * factor;
  return to - from >= bounds[1] - bounds[0] ? null : clampRange([from, to], bounds, narrowest);
}

/** `range` shifted by `share` of its width. */
export function panRange(range: Range, share: number, bounds: Range, narrowest = NARROWEST): Range {
  const shift = (range[1] - range[0]) * share;
  return clampRange([range[0] + shift, range[1] + shift], bounds, narrowest);
}
