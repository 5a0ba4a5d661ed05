/** The summary that a profiled run saves: the slowest operations of a few steps. */
import { formatDuration, plural } from "@/lib/format";

export const PROFILE_PATH = "artifacts/profile.json";

const NUMBERS = ["calls", "self_cpu_us", "cpu_us", "self_device_us", "device_us"] as const;
export type ProfileRow = { name: string } & Record<(typeof NUMBERS)[number], number>;

export interface RunProfile {
  steps: number;
  first_step: number;
  duration_s: number;
  rows: ProfileRow[];
}

/** The profile in a file of a run; null for a file that holds none. */
export function profileOf(content: unknown): RunProfile | null {
  if (!isObject(content) || !Array.isArray(content.rows)) return null;
  const { steps, first_step, duration_s } = content;
  if (typeof steps !== "number" || typeof first_step !== "number" || typeof duration_s !== "number")
    return null;
  return { steps, first_step, duration_s, rows: content.rows.filter(isRow) };
}

/** What was profiled, in words. */
export const profileText = ({ steps, first_step, duration_s }: RunProfile) =>
  `${plural(steps, "step")} from step ${first_step}, ${formatDuration(duration_s)}`;

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null;

const isRow = (value: unknown): value is ProfileRow =>
  isObject(value) && typeof value.name === "string" && NUMBERS.every((name) => Number.isFinite(value[name]));
