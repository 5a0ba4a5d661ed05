/** Settings of several runs side by side: what differs, and what only some of them have. */
import type { ConfigValue, RunRow } from "@/api/types";

export interface DiffLine {
  key: string;
  /** One for each run; undefined where it has no such setting. */
  values: (ConfigValue | undefined)[];
  /** Whether the value of a run is another than that of the first. */
  differs: boolean[];
}

export interface ConfigDiff {
  lines: DiffLine[];
  /** Settings that all runs have alike. */
  equal: number;
}

export function configDiff(runs: readonly Pick<RunRow, "config">[]): ConfigDiff {
  const keys = [...new Set(runs.flatMap(({ config }) => Object.keys(config)))].sort();
  const lines: DiffLine[] = [];
  for (const key of keys) {
    const values = runs.map(({ config }) => config[key]);
    const differs = values.map((value) => value !== values[0]);
    if (differs.includes(true)) lines.push({ key, values, differs });
  }
  return { lines, equal: keys.length - lines.length };
}
