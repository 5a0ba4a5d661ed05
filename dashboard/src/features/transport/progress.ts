/** How far a run is, and the numbers the strip proposes. */
import { formatCount, formatDuration, formatPercent } from "@/lib/format";

export interface Progress {
  /** 0…1, or null if the total is unknown. */
  share: number | null;
  /** "50 % · 1.2 min left" */
  fact: string;
  ticks: string[];
}

export function progressOf(
  step: number,
  total: number | null,
  stepsPerS: number | null,
  running: boolean,
): Progress {
  if (total === null || total <= 0) return { share: null, fact: "Total steps unknown", ticks: [] };
  const share = Math.min(1, step / total);
  const parts = [`${formatPercent(share)} of ${formatCount(total)} steps`];
  if (running && stepsPerS && step < total) parts.push(`${formatDuration((total - step) / stepsPerS)} left`);
  return { share, fact: parts.join(" · "), ticks: quarters(total) };
}

/** Labels below the track; fewer when quarters would not be whole steps. */
function quarters(total: number): string[] {
  const parts = total % 4 === 0 ? 4 : total % 2 === 0 ? 2 : 1;
  return Array.from({ length: parts + 1 }, (_, index) => formatCount((total / parts) * index));
}

const CHARACTER_PX = 6.5;
const GAP_PX = 12;

/** As many evenly spread labels as stand side by side in `width`: all, every other, the ends, the last. */
export function thinned(ticks: readonly string[], width: number): string[] {
  const last = ticks.length - 1;
  for (const every of [1, 2, 4]) {
    if (every > 1 && last % every !== 0) continue;
    const kept = ticks.filter((_, index) => index % every === 0);
    // Each label of a row that is spread evenly has the room of the longest.
    const longest = Math.max(0, ...kept.map((tick) => tick.length));
    if (kept.length * (longest * CHARACTER_PX + GAP_PX) - GAP_PX <= width) return kept;
  }
  return ticks.slice(-1);
}

/** The next round step: what one most likely wants to run to. */
export function proposedTarget(step: number, total: number | null): number {
  const round = step < 100 ? 100 : step < 1000 ? 500 : 1000;
  const next = (Math.floor(step / round) + 1) * round;
  return total !== null && total > step ? Math.min(next, total) : next;
}

/** Why one cannot run to `target`, or null. */
export function targetError(target: number, step: number, total: number | null): string | null {
  if (target <= step) return `Already past step ${formatCount(target)}`;
  if (total !== null && target > total) return `The run ends at step ${formatCount(total)}`;
  return null;
}
