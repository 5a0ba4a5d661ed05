/** What the breakpoints add to the chart: a diamond for each hit, and the band of the one that watches the loss. */
import type { BreakpointOut, CommandOut, DiagnosedChange } from "@/api/types";
import type { Mark } from "@/charts/line/lines";
import { FEWEST } from "@/charts/line/trend";
import { formatCount } from "@/lib/format";

export interface Band {
  /** Half width in standard deviations. */
  sigma: number;
  /** Points in the window. */
  window: number;
  /** Points the window must hold before the band is drawn. */
  fewest: number;
}

/** Where no breakpoint judges by it the band waits for a full window: the first fall of a loss would make it meaninglessly wide. */
const DEFAULT_BAND: Band = { sigma: 4, window: 200, fewest: 200 };

/** The window and limit of the first z-score breakpoint that is on, else four deviations of the last 200. */
export function bandOf(breakpoints: readonly BreakpointOut[]): Band {
  for (const { condition, enabled } of breakpoints) {
    if (enabled && condition.kind === "loss_z") {
      return {
        sigma: condition.limit ?? DEFAULT_BAND.sigma,
        window: condition.window ?? DEFAULT_BAND.window,
        fewest: FEWEST,
      };
    }
  }
  return DEFAULT_BAND;
}

interface Hit {
  id: number;
  step: number;
}

/**
 * Hits in the order of the steps; the one at which the run is paused now is filled.
 *
 * A removed breakpoint is no longer in the list, but its pauses stay in the command log.
 */
export function marksOf(
  breakpoints: readonly BreakpointOut[],
  commands: readonly CommandOut[],
  now: Hit | null,
): Mark[] {
  const listed = breakpoints.flatMap(({ id, hit_steps }) => hit_steps.map((step): Hit => ({ id, step })));
  const hits = new Map([...listed, ...logged(commands)].map((hit) => [`${hit.id} ${hit.step}`, hit]));
  const marks = [...hits.values()].map(
    ({ id, step }): Mark => ({ x: step, text: String(id), now: now?.id === id && now.step === step }),
  );
  return marks.sort((a, b) => a.x - b.x || Number(a.now) - Number(b.now));
}

/** Where the first learning rate jumped before a stop: "lr × 80 at 300". */
export function rateMarks(changes: readonly DiagnosedChange[]): Mark[] {
  const rates = changes.filter(({ key, step }) => step !== null && (key === "lr" || key.startsWith("lr.")));
  const first = rates.sort((a, b) => (a.step as number) - (b.step as number))[0];
  if (first === undefined || first.step === null) return [];
  const text = `${first.key.replace(/^lr\./, "lr of ")} ${first.reading} at ${formatCount(first.step)}`;
  return [{ x: first.step, text, now: false, plain: true }];
}

function logged(commands: readonly CommandOut[]): Hit[] {
  return commands.flatMap(({ who, payload, step }) =>
    who === "breakpoint" && typeof payload.breakpoint === "number" && step != null
      ? [{ id: payload.breakpoint, step }]
      : [],
  );
}
