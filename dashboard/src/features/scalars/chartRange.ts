/** Which steps the chart shows: everything, the last few hundred, or a range one zoomed to. */
import type { Range } from "@/charts/line/lines";
import { NARROWEST } from "@/charts/line/range";

export const RECENT = 600;
/** Share of the width left free on the right for the steps to come. */
const FUTURE = 0.04;

export type View = { kind: "all" } | { kind: "recent" } | { kind: "range"; from: number; to: number };

/** The range of steps drawn; `first` and `last` are those of the series, `left` the last step before the run went back. */
export function viewRange(view: View, first: number, last: number, left = last): Range {
  if (view.kind === "range") return [view.from, view.to];
  const isRecent = view.kind === "recent";
  const start = isRecent ? Math.max(first, last - RECENT) : first;
  // Of what was left behind at most half as much again: the present stays in sight.
  const end = Math.max(last, isRecent ? Math.min(left, last + RECENT / 2) : left);
  const span = Math.max(end - start, NARROWEST);
  return [start, start + span * (1 + FUTURE)];
}

/** The view of a range that was zoomed to; null is everything. */
export function rangeView(range: Range | null): View {
  return range === null ? { kind: "all" } : { kind: "range", from: range[0], to: range[1] };
}

/** As it stands in the address: `all`, nothing for the last 600, `11880-12505`. */
export function viewText(view: View, ended = false): string | null {
  if (view.kind === "range") return `${view.from}-${view.to}`;
  return view.kind === usual(ended) ? null : view.kind;
}

export function readView(text: string | null, ended = false): View {
  if (text === "all" || text === "recent") return { kind: text };
  const match = /^(\d+)-(\d+)$/.exec(text ?? "");
  const [from, to] = [Number(match?.[1]), Number(match?.[2])];
  return to > from ? { kind: "range", from, to } : { kind: usual(ended) };
}

/** Of a run that is over one wants to see all. */
const usual = (ended: boolean) => (ended ? "all" : "recent");
