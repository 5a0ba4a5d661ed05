/** Runs in order: sorted, in groups of equal settings, forks under their parents. */
import type { RunRow } from "@/api/types";
import { summarise } from "@/lib/statistics";
import { type Cell, compareCells } from "@/ui/table/sortCells";
import { cellOf, settingText } from "./values";

/** Spread over fewer seeds than this says nothing. */
export const FEWEST_SEEDS = 3;

export interface Sorting {
  key: string;
  descending: boolean;
}

/** `-started_at` is the newest first. */
export function readSort(text: string): Sorting {
  return { key: text.replace(/^-/, ""), descending: text.startsWith("-") };
}

export const writeSort = ({ key, descending }: Sorting): string => `${descending ? "-" : ""}${key}`;

export function sortRuns(runs: readonly RunRow[], { key, descending }: Sorting): RunRow[] {
  const cells = new Map<string, Cell>(runs.map((run) => [run.id, cellOf(run, key)]));
  const direction = descending ? "descending" : "ascending";
  return [...runs].sort(
    (a, b) =>
      compareCells(cells.get(a.id), cells.get(b.id), direction) ||
      compareCells(a.started_at, b.started_at, "descending") ||
      a.id.localeCompare(b.id),
  );
}

export interface RunAtDepth {
  run: RunRow;
  /** How many forks it is away from a run without a parent in the list. */
  depth: number;
}

/** Forks under their parents, each level in the order given. */
export function withForks(runs: readonly RunRow[]): RunAtDepth[] {
  const known = new Set(runs.map(({ id }) => id));
  const children = new Map<string | null, RunRow[]>();
  for (const run of runs) {
    const parent = run.parent !== null && run.parent !== run.id && known.has(run.parent) ? run.parent : null;
    children.set(parent, [...(children.get(parent) ?? []), run]);
  }
  const listed: RunAtDepth[] = [];
  const seen = new Set<string>();
  const addChildren = (parent: string | null, depth: number) => {
    for (const run of children.get(parent) ?? []) {
      if (seen.has(run.id)) continue;
      seen.add(run.id);
      listed.push({ run, depth });
      addChildren(run.id, depth + 1);
    }
  };
  addChildren(null, 0);
  // A ring of parents cannot happen, but a run must never be hidden.
  for (const run of runs) if (!seen.has(run.id)) listed.push({ run, depth: 0 });
  return listed;
}

export interface RunGroup {
  /** The value that its runs share, as text; it names the group in the address. */
  label: string;
  runs: RunRow[];
}

/** Runs with equal values of a key together, groups in the order of their values, none last. */
export function groupRuns(runs: readonly RunRow[], key: string): RunGroup[] {
  const groups = new Map<string, { cell: Cell; runs: RunRow[] }>();
  for (const run of runs) {
    const cell = cellOf(run, key);
    const label = settingText(cell);
    const group = groups.get(label);
    if (group) group.runs.push(run);
    else groups.set(label, { cell, runs: [run] });
  }
  return [...groups]
    .sort(([, a], [, b]) => compareCells(a.cell, b.cell, "ascending"))
    .map(([label, { runs: own }]) => ({ label, runs: own }));
}

export interface Spread {
  mean: number;
  /** Between runs, divided by their number less one; NaN below two. */
  deviation: number;
  count: number;
  enough: boolean;
}

/** Mean and spread of a column over the runs of a group; null where none has a value. */
export function spreadOf(runs: readonly RunRow[], key: string): Spread | null {
  const measured = runs.flatMap((run) => {
    const cell = cellOf(run, key);
    return typeof cell === "number" && Number.isFinite(cell) ? [{ cell, seed: run.seed ?? run.id }] : [];
  });
  if (measured.length === 0) return null;
  const { mean, deviation } = summarise(measured.map(({ cell }) => cell));
  const count = measured.length;
  return {
    mean,
    deviation: count > 1 ? deviation * Math.sqrt(count / (count - 1)) : Number.NaN,
    count,
    enough: new Set(measured.map(({ seed }) => seed)).size >= FEWEST_SEEDS,
  };
}

export type TableItem =
  | { kind: "group"; label: string; runs: readonly RunRow[]; closed: boolean }
  | { kind: "run"; id: string; depth: number };

/** The lines of the table from top to bottom. */
export function itemsOf(
  runs: readonly RunRow[],
  sorting: Sorting,
  group: string,
  closed: ReadonlySet<string>,
): TableItem[] {
  const sorted = sortRuns(runs, sorting);
  if (group === "") return withForks(sorted).map(itemOf);
  return groupRuns(sorted, group).flatMap(({ label, runs: own }): TableItem[] => {
    const head: TableItem = { kind: "group", label, runs: own, closed: closed.has(label) };
    return closed.has(label) ? [head] : [head, ...withForks(own).map(itemOf)];
  });
}

const itemOf = ({ run, depth }: RunAtDepth): TableItem => ({ kind: "run", id: run.id, depth });
