/** Filter and order of the list of runs. */
import type { RunOut } from "@/api/types";

export type RunColumn = "name" | "state" | "step" | "directory" | "started";

const VALUES: Record<RunColumn, (run: RunOut) => string | number | null> = {
  name: (run) => run.name,
  state: (run) => run.state,
  step: (run) => run.step,
  directory: (run) => run.directory,
  started: (run) => run.started_at,
};

function matches(run: RunOut, words: string[]): boolean {
  const text = `${run.name} ${run.state} ${run.directory} ${run.id}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

function compare(a: string | number | null, b: string | number | null, sign: number): number {
  // What is not known stands last, whichever way the rest is turned.
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * String(a).localeCompare(String(b), "en", { numeric: true });
}

/** Runs that match every word, ordered by a column; a minus in front turns it: `-started`. */
export function sortRuns(runs: readonly RunOut[], filter: string, sort: string): RunOut[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const value = VALUES[sort.replace("-", "") as RunColumn] ?? VALUES.started;
  const sign = sort.startsWith("-") ? -1 : 1;
  return runs.filter((run) => matches(run, words)).sort((a, b) => compare(value(a), value(b), sign));
}
