/** Which steps the chart shows: everything, the last few hundred, or a range one zoomed to. */

export const RECENT = 600;
/** Share of the width left free on the right for the steps to come. */
const FUTURE = 0.04;
/** No view is narrower than this, so that the first steps do not fill the chart. */
const NARROWEST = 20;

export type View = { kind: "all" } | { kind: "recent" } | { kind: "range"; from: number; to: number };
export type Range = readonly [from: number, to: number];

/** The range of steps drawn; `first` and `last` are those of the series. */
export function viewRange(view: View, first: number, last: number): Range {
  if (view.kind === "range") return [view.from, view.to];
  const start = view.kind === "recent" ? Math.max(first, last - RECENT) : first;
  const span = Math.max(last - start, NARROWEST);
  return [start, start + span * (1 + FUTURE)];
}

/** The view after scaling `range` by `factor` about `at`; all of it when that would show more than there is. */
export function zoomed(range: Range, at: number, factor: number, first: number, last: number): View {
  const from = at - (at - range[0]) * factor;
  const to = at + (range[1] - at) * factor;
  const everything = viewRange({ kind: "all" }, first, last);
  if (to - from >= everything[1] - everything[0]) return { kind: "all" };
  return rangeView(from, to, first, last);
}

/** The view shifted by `share` of its width. */
export function panned(range: Range, share: number, first: number, last: number): View {
  const shift = (range[1] - range[0]) * share;
  return rangeView(range[0] + shift, range[1] + shift, first, last);
}

/** A range of steps, kept within the series and no narrower than can be read. */
export function rangeView(from: number, to: number, first: number, last: number): View {
  const everything = viewRange({ kind: "all" }, first, last);
  const span = Math.min(Math.max(to - from, NARROWEST), everything[1] - everything[0]);
  const middle = (from + to) / 2;
  const start = Math.min(Math.max(middle - span / 2, everything[0]), everything[1] - span);
  return { kind: "range", from: Math.round(start), to: Math.round(start + span) };
}

/** As it stands in the address: `all`, nothing for the last 600, `11880-12505`. */
export function viewText(view: View): string | null {
  if (view.kind === "recent") return null;
  return view.kind === "all" ? "all" : `${view.from}-${view.to}`;
}

export function readView(text: string | null): View {
  if (text === "all") return { kind: "all" };
  const match = /^(\d+)-(\d+)$/.exec(text ?? "");
  if (!match) return { kind: "recent" };
  const [from, to] = [Number(match[1]), Number(match[2])];
  return to > from ? { kind: "range", from, to } : { kind: "recent" };
}

/** Range of the values drawn: the raw line whole, of the band as much as does not squeeze it. */
export function valueRange(
  raw: readonly (number | null)[],
  low: readonly (number | null)[],
  high: readonly (number | null)[],
  logScale: boolean,
): Range {
  const [rawLow, rawHigh] = extent(raw);
  if (rawLow > rawHigh) return logScale ? [0.1, 1] : [0, 1];
  const room = Math.max(rawHigh - rawLow, Math.abs(rawHigh) * 1e-6) * 0.35;
  const bottom = Math.max(Math.min(rawLow, extent(low)[0]), rawLow - room);
  const top = Math.min(Math.max(rawHigh, extent(high)[1]), rawHigh + room);
  if (logScale) return [Math.max(bottom, rawLow / 2) / 1.05, top * 1.05];
  const padding = (top - bottom) * 0.05 || Math.abs(top) * 0.05 || 1;
  // Where no value is negative, the axis does not pretend that one could be.
  const floor = rawLow >= 0 ? 0 : Number.NEGATIVE_INFINITY;
  return [Math.max(bottom - padding, floor), top + padding];
}

function extent(values: readonly (number | null)[]): Range {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const value of values) {
    if (value === null) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}
