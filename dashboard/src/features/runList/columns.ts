/** Which columns the table has: those of every run, the settings that differ, the last values of what was measured. */
import type { RunRow } from "@/api/types";
import { titleOf } from "./values";

export interface Columns {
  /** Keys of the table's columns between the state and the age, in order. */
  shown: string[];
  /** Everything that could be shown, in the order of the menu. */
  own: string[];
  config: string[];
  summary: string[];
}

const OWN = ["progress", "tags", "seed", "epoch", "step", "duration", "bytes", "recipe", "host", "attempt"];
/** What one looks at first, where it was measured. */
const FIRST_METRICS = ["best_val_loss", "val_loss", "loss"];
/** Settings, tags and metrics besides the main one that find room beside the curves. */
const ROOM = 3;

/** Settings that are not the same in all runs, in the order given. */
export function differing(runs: readonly RunRow[], keys: readonly string[]): string[] {
  const [first, ...others] = runs;
  if (first === undefined) return [];
  return keys.filter((key) => others.some((run) => run.config[key] !== first.config[key]));
}

/** All keys that occur, those the server names first. */
export function allKeys(
  runs: readonly RunRow[],
  part: "config" | "summary",
  named: readonly string[],
): string[] {
  const keys = new Set(named);
  for (const run of runs) for (const key of Object.keys(run[part])) keys.add(key);
  return [...keys];
}

/** Whether at least half of the runs have a value here. */
function isCommon(runs: readonly RunRow[], part: "config" | "summary", key: string): boolean {
  const having = runs.filter((run) => run[part][key] !== undefined && run[part][key] !== null).length;
  return having > 0 && 2 * having >= runs.length;
}

/** From so many runs on, a setting in which one of them differs from all others says nothing of the others. */
const MANY_RUNS = 4;

/**
 * Settings that tell the runs apart: most runs have them, they differ in more than one odd run, and they are no name.
 *
 * Plain values come before lists.
 */
export function tellingSettings(runs: readonly RunRow[], keys: readonly string[]): string[] {
  const telling = keys.filter((key) => {
    if (!isCommon(runs, "config", key)) return false;
    const values = runs
      .map((run) => run.config[key])
      .filter((value) => value !== undefined && value !== null);
    const counts = new Map<unknown, number>();
    for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
    if (counts.size < 2) return false;
    if (values.length > 2 && counts.size === values.length && values.every(isText)) return false;
    const others = values.length - Math.max(...counts.values());
    return others > 1 || runs.length < MANY_RUNS;
  });
  const isList = (key: string) => runs.some((run) => String(run.config[key] ?? "").startsWith("["));
  return [...telling.filter((key) => !isList(key)), ...telling.filter(isList)];
}

const isText = (value: unknown) => typeof value === "string";

/** The columns to begin with: a few settings that differ, how far, the main measure, how fast. */
export function usualColumns(
  runs: readonly RunRow[],
  config: readonly string[],
  all: readonly string[],
): string[] {
  const tags = runs.some((run) => run.tags.length > 0) ? ["tags"] : [];
  const settings = tellingSettings(runs, config).slice(0, ROOM - tags.length);
  const common = all.filter((name) => isCommon(runs, "summary", name));
  const summary = common.length > 0 ? common : all;
  const first = FIRST_METRICS.find((name) => summary.includes(name)) ?? summary[0];
  const speed = summary.filter((name) => name === "steps_per_s");
  const others = summary.filter((name) => name !== first && name !== "steps_per_s");
  const metrics = [
    ...(first === undefined ? [] : [first]),
    ...others.slice(0, Math.max(0, ROOM - 1 - tags.length - settings.length)),
    ...speed,
  ];
  return [
    ...tags,
    ...settings.map((key) => `config.${key}`),
    "progress",
    ...[...new Set(metrics)].map((name) => `summary.${name}`),
  ];
}

/** The columns of the address where it names any, else the usual ones. */
export function columnsOf(
  runs: readonly RunRow[],
  named: { config: readonly string[]; summary: readonly string[] },
  chosen: readonly string[] | null,
): Columns {
  const config = allKeys(runs, "config", named.config);
  const summary = allKeys(runs, "summary", named.summary);
  const varying = new Set(differing(runs, config));
  const ordered = [...config.filter((key) => varying.has(key)), ...config.filter((key) => !varying.has(key))];
  return {
    shown: chosen === null ? usualColumns(runs, ordered, summary) : [...chosen],
    own: OWN,
    config: ordered.map((key) => `config.${key}`),
    summary: summary.map((key) => `summary.${key}`),
  };
}

/** Titles of columns; two settings with the same last word keep their whole keys. */
export function columnTitles(keys: readonly string[]): Map<string, string> {
  const titles = keys.map(titleOf);
  return new Map(
    keys.map((key, index) => {
      const title = titles[index] as string;
      const alone = titles.filter((other) => other === title).length === 1;
      return [key, alone ? title : key.replace(/^(config|summary)\./, "")];
    }),
  );
}
