/** What the breakpoints add to the chart: a diamond for each hit, and the band of the one that watches the loss. */
import type { BreakpointOut } from "@/api/types";
import type { Mark } from "@/charts/plotMarks";

export interface Band {
  /** Half width in standard deviations. */
  sigma: number;
  /** Points in the window. */
  window: number;
}

const DEFAULT_BAND: Band = { sigma: 4, window: 200 };

/** The window and limit of the first z-score breakpoint that is on, else four deviations of the last 200. */
export function bandOf(breakpoints: readonly BreakpointOut[]): Band {
  for (const { condition, enabled } of breakpoints) {
    if (enabled && condition.kind === "loss_z") {
      return {
        sigma: condition.limit ?? DEFAULT_BAND.sigma,
        window: condition.window ?? DEFAULT_BAND.window,
      };
    }
  }
  return DEFAULT_BAND;
}

/** Hits in the order of the steps; the one where the run stands now is filled. */
export function marksOf(
  breakpoints: readonly BreakpointOut[],
  now: { id: number; step: number } | null,
): Mark[] {
  const marks = breakpoints.flatMap(({ id, hit_steps }) =>
    hit_steps.map((step): Mark => ({ step, text: String(id), now: now?.id === id && now.step === step })),
  );
  return marks.sort((a, b) => a.step - b.step || Number(a.now) - Number(b.now));
}
