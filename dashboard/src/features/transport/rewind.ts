/** The steps one can return to: where they lie on the track, and what it takes to reach one. */
import type { RewindOut } from "@/api/types";
import { formatBytes, formatCount, formatDuration, plural } from "@/lib/format";

/** Share of the track at which a step lies. */
export function shareOf({ first_step, step }: RewindOut, wanted: number): number {
  const first = first_step ?? step;
  return step > first ? Math.min(Math.max((wanted - first) / (step - first), 0), 1) : 1;
}

/** The step at a share of the track. */
export function stepAt({ first_step, step }: RewindOut, share: number): number {
  const first = first_step ?? step;
  return Math.round(first + Math.min(Math.max(share, 0), 1) * (step - first));
}

/** Steps that must be repeated to reach `wanted`: those since the snapshot before it. */
export function replays({ snapshot_steps }: RewindOut, wanted: number): number {
  const before = snapshot_steps.filter((step) => step <= wanted);
  return before.length ? wanted - Math.max(...before) : 0;
}

/** "12,344, replays 8 steps, 0.2 s" */
export function costText(rewind: RewindOut, wanted: number): string {
  const again = replays(rewind, wanted);
  if (again === 0) return `${formatCount(wanted)}, no replay needed`;
  const longest = widestGap(rewind);
  const cost =
    rewind.replay_cost_s === null || longest === 0
      ? ""
      : `, ${formatDuration((rewind.replay_cost_s * again) / longest)}`;
  return `${formatCount(wanted)}, replays ${plural(again, "step")}${cost}`;
}

/** The most steps that ever have to be repeated. */
function widestGap({ snapshot_steps, step }: RewindOut): number {
  const bounds = [...snapshot_steps, step + 1].sort((a, b) => a - b);
  return bounds
    .slice(1)
    .reduce((most, bound, index) => Math.max(most, bound - 1 - (bounds[index] as number)), 0);
}

/** "384 steps · 49 snapshots · 58 MiB" */
export function factText({ first_step, step, snapshot_steps, bytes }: RewindOut): string {
  const steps = step - (first_step ?? step);
  return [plural(steps, "step"), plural(snapshot_steps.length, "snapshot"), formatBytes(bytes)].join(" · ");
}

/** Labels below the track: four steps, evenly apart. */
export function ticksOf(rewind: RewindOut): number[] {
  const ticks = [0, 0.25, 0.5, 0.75].map((share) => stepAt(rewind, share));
  return [...new Set(ticks)];
}
