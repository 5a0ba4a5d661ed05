/** The timelines of a run as lanes over its steps. */
import type { TimelineOut } from "@/api/types";
import { formatCount } from "@/lib/format";

export interface Lane {
  timeline: number;
  /** As people count: the first is 1. */
  name: string;
  from: number;
  /** Last step that counts: up to where the next one left it, or the run's current step. */
  to: number;
  at: number | null;
  why: string | null;
  words: string;
}

/** In order; what a timeline did beyond the step that the next went back to was undone. */
export function lanesOf(timelines: readonly TimelineOut[], step: number): Lane[] {
  const ordered = [...timelines].sort((a, b) => a.timeline - b.timeline);
  return ordered.map((one, index) => {
    const from = one.from_step ?? 0;
    const next = ordered[index + 1];
    const to = next === undefined ? Math.max(from, step) : Math.max(from, next.from_step ?? from);
    const back = index === 0 ? "" : `back to step ${formatCount(from)}`;
    const words = [back, one.why ?? ""].filter(Boolean).join(": ");
    return {
      timeline: one.timeline,
      name: `Timeline ${one.timeline + 1}`,
      from,
      to,
      at: one.at,
      why: one.why,
      words,
    };
  });
}
