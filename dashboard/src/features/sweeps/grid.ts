/** Where the cells of a sweep stand: one axis as rows, all others side by side as columns. */
import { fromWire, type SweepAxis, type SweepCell, type SweepEffect } from "@/api/types";
import { formatFixed, plural } from "@/lib/format";
import { summarise } from "@/lib/statistics";

export interface SweepColumn {
  /** The level of each column axis, the outermost first. */
  levels: readonly string[];
  /** Whether a new group of the outermost axis begins here. */
  opens: boolean;
}

export interface SweepRow {
  level: string;
  /** One cell for each column; null where the plan has none. */
  cells: readonly (SweepCell | null)[];
}

export interface SweepGrid {
  rowAxis: SweepAxis;
  columnAxes: readonly SweepAxis[];
  columns: readonly SweepColumn[];
  rows: readonly SweepRow[];
}

/** The axis of the rows: the wanted one, else the first that is no seed. */
export function pickRowAxis(axes: readonly SweepAxis[], wanted: string): SweepAxis {
  const fallback = axes.find((axis) => !axis.is_seed) ?? axes[0];
  return axes.find(({ key }) => key === wanted) ?? (fallback as SweepAxis);
}

const keyOf = (axes: readonly SweepAxis[], choices: Record<string, string>) =>
  JSON.stringify(axes.map(({ key }) => choices[key]));

/** The grid of a sweep. Seeds are the innermost columns. */
export function layGrid(axes: readonly SweepAxis[], cells: readonly SweepCell[], wanted: string): SweepGrid {
  const rowAxis = pickRowAxis(axes, wanted);
  const others = axes.filter((axis) => axis !== rowAxis);
  const columnAxes = [...others.filter((axis) => !axis.is_seed), ...others.filter((axis) => axis.is_seed)];
  const byKey = new Map(cells.map((cell) => [keyOf(axes, cell.choices), cell]));
  let combinations: string[][] = [[]];
  for (const axis of columnAxes) {
    combinations = combinations.flatMap((levels) => axis.values.map((value) => [...levels, value]));
  }
  const columns = combinations.map((levels, index) => ({
    levels,
    opens: index > 0 && levels.length > 1 && levels[0] !== combinations[index - 1]?.[0],
  }));
  const rows = rowAxis.values.map((level) => ({
    level,
    cells: columns.map(({ levels }) => {
      const choices: Record<string, string> = { [rowAxis.key]: level };
      columnAxes.forEach((axis, index) => {
        choices[axis.key] = levels[index] ?? "";
      });
      return byKey.get(keyOf(axes, choices)) ?? null;
    }),
  }));
  return { rowAxis, columnAxes, columns, rows };
}

/** The next cell in the direction of an arrow; null at the edge, and for any other key. */
export function neighbour(grid: SweepGrid, job: number, key: string): SweepCell | null {
  const down = { ArrowUp: -1, ArrowDown: 1 }[key] ?? 0;
  const right = { ArrowLeft: -1, ArrowRight: 1 }[key] ?? 0;
  if (down === 0 && right === 0) return null;
  let row = grid.rows.findIndex(({ cells }) => cells.some((cell) => cell?.job === job));
  let column = grid.rows[row]?.cells.findIndex((cell) => cell?.job === job) ?? -1;
  while (row >= 0 && column >= 0 && row < grid.rows.length && column < grid.columns.length) {
    row += down;
    column += right;
    const cell = grid.rows[row]?.cells[column];
    if (cell) return cell;
  }
  return null;
}

/** Whether a cell's value counts: it is finished, with the code and data of now. */
export const isKept = (cell: SweepCell): boolean => cell.state === "finished" && !cell.open;

/** A number of the wire; NaN where there is none. */
export const numberOf = (value: SweepCell["value"] | undefined): number => fromWire(value) ?? Number.NaN;

/** The value of a cell as a number; NaN where it has none. */
export const cellValue = (cell: SweepCell | null): number => numberOf(cell?.value);

/** Least and greatest value of the finished cells; null without any. */
export function valueRange(cells: readonly SweepCell[]): readonly [low: number, high: number] | null {
  const { finite, minimum, maximum } = summarise(cells.filter(isKept).map(cellValue));
  return finite === 0 ? null : [minimum, maximum];
}

/** Mean, sample deviation and count of the finished cells of a row. */
export function rowMean({ cells }: SweepRow): { mean: number; deviation: number; count: number } {
  const values = cells.filter((cell) => cell !== null && isKept(cell)).map(cellValue);
  const { mean, deviation, finite } = summarise(values);
  const sample = finite > 1 ? deviation * Math.sqrt(finite / (finite - 1)) : Number.NaN;
  return { mean, deviation: sample, count: finite };
}

/** How many decimals tell apart values over such a range. */
export function decimalsFor(range: readonly [low: number, high: number] | null): number {
  if (range === null) return 4;
  const size = Math.max(Math.abs(range[0]), Math.abs(range[1]), Number.MIN_VALUE);
  return Math.max(0, Math.min(6, 3 - Math.floor(Math.log10(size)) - (size >= 1 ? 0 : 1)));
}

export interface Verdict {
  text: string;
  /** "too few to rank" and the like; empty where the better level is sure. */
  note: string;
  held: string;
}

/** What the level of a cell changes against each other level of the row axis, with its other settings held. */
export function verdictsOf(
  grid: SweepGrid,
  comparisons: readonly SweepEffect[],
  focused: SweepCell | null,
  lowerIsBetter: boolean,
  decimals: number,
): Verdict[] {
  const { rowAxis, columnAxes } = grid;
  const held = columnAxes.filter((axis) => !axis.is_seed);
  const anchor = focused ?? grid.rows.flatMap(({ cells }) => cells).find((cell) => cell && isKept(cell));
  if (!anchor) return [];
  const fitting = comparisons.filter(
    (one) => one.axis === rowAxis.key && held.every(({ key }) => one.held[key] === anchor.choices[key]),
  );
  const at = held.map(({ key, label }) => `${label} ${anchor.choices[key]}`).join(", ");
  const byOwn = fitting.filter(({ level, against }) =>
    [level, against].includes(anchor.choices[rowAxis.key] ?? ""),
  );
  return (focused && byOwn.length > 0 ? byOwn : fitting).map((one) =>
    verdictOf(one, lowerIsBetter, decimals, at),
  );
}

function verdictOf(effect: SweepEffect, lowerIsBetter: boolean, decimals: number, at: string): Verdict {
  const mean = numberOf(effect.mean);
  const levelWins = mean < 0 === lowerIsBetter;
  const [winner, loser] = levelWins ? [effect.level, effect.against] : [effect.against, effect.level];
  const width = numberOf(effect.high) - numberOf(effect.low);
  const half = Number.isNaN(width) ? "" : ` ± ${formatFixed(width / 2, decimals)}`;
  const over = `over ${plural(effect.seeds, "seed")}`;
  const by = `${formatFixed(Math.abs(mean), decimals)}${half} ${over}`;
  const isUnsure = effect.enough && effect.better === null;
  return {
    text: isUnsure
      ? `${effect.level} and ${effect.against} do not differ: ${by}`
      : `${winner} better than ${loser} by ${by}`,
    note: effect.enough ? (isUnsure ? "interval contains 0" : "") : "too few to rank",
    held: at === "" ? "paired by seed" : `at ${at}, paired by seed`,
  };
}

/** Seconds until no cell is open, by what the finished ones took; null while none is finished or none runs. */
export function secondsLeft(
  cells: readonly SweepCell[],
  secondsOf: (cell: SweepCell) => number | null,
): number | null {
  const finished = cells.filter(({ state }) => state === "finished");
  const took = finished.map(secondsOf).filter((seconds) => seconds !== null);
  const running = cells.filter(({ state }) => state === "running");
  if (took.length === 0 || running.length === 0) return null;
  const mean = took.reduce((sum, seconds) => sum + seconds, 0) / took.length;
  const waiting = cells.filter(({ open, state }) => open && state !== "running");
  const shares = [...running, ...waiting].map(({ share }) => 1 - (share ?? 0));
  const inTurns = shares.reduce((sum, share) => sum + share, 0) / running.length;
  return mean * Math.max(inTurns, ...shares);
}
