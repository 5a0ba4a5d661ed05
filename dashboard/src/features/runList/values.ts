/** What a run can be sorted, filtered and grouped by: one name for each value that a row holds. */
import type { ConfigValue, RunRow, WireValue } from "@/api/types";
import { formatExponent, formatFixed } from "@/lib/format";
import type { Cell } from "@/ui/table/sortCells";

const OWN: Record<string, (run: RunRow) => Cell> = {
  name: (run) => run.name,
  state: (run) => run.state,
  progress: (run) => progressOf(run) ?? run.step,
  step: (run) => run.step,
  // Counted from 1, as everywhere that people read; the record counts from 0.
  epoch: (run) => (run.epoch === null ? null : run.epoch + 1),
  seed: (run) => run.seed,
  tags: (run) => (run.tags.length > 0 ? run.tags.join(", ") : null),
  note: (run) => run.note || null,
  recipe: (run) => run.recipe,
  host: (run) => run.host,
  started_at: (run) => run.started_at,
  duration: (run) => durationOf(run),
  bytes: (run) => run.bytes,
  directory: (run) => run.directory,
  attempt: (run) => run.attempt,
};

export const isOwn = (key: string): boolean => Object.hasOwn(OWN, key);

/** How much of its steps a run has taken, between 0 and 1; null where the end is not known. */
export function progressOf({ step, total_steps }: Pick<RunRow, "step" | "total_steps">): number | null {
  return total_steps ? Math.min(1, (step ?? 0) / total_steps) : null;
}

/** Seconds from the start to the end, or to the last sign of life. */
export function durationOf({ started_at, ended_at, updated_at }: RunRow): number | null {
  const last = ended_at ?? updated_at;
  return started_at === null || last === null ? null : Math.max(0, last - started_at);
}

/** When a run was last heard of; null for one that lives. */
export function silentSince({ live, ended_at, updated_at, started_at }: RunRow): number | null {
  return live ? null : (ended_at ?? updated_at ?? started_at);
}

function number(value: WireValue | undefined): number | null {
  if (value === null || value === undefined) return null;
  return typeof value === "number" ? value : Number(value);
}

/** The value of a key: one of the run's own, `config.lr`, `summary.loss`, or the bare name of either. */
export function cellOf(run: RunRow, key: string): Cell {
  const own = OWN[key];
  if (own !== undefined && isOwn(key)) return own(run);
  if (key.startsWith("config.")) return run.config[key.slice(7)];
  if (key.startsWith("summary.")) return number(run.summary[key.slice(8)]);
  return run.config[key] ?? number(run.summary[key]);
}

/** A setting as it was given: rounding would make two of them look alike. */
export function settingText(value: ConfigValue | undefined): string {
  if (value === null || value === undefined) return "—";
  if (typeof value !== "number") return String(value);
  if (!Number.isFinite(value)) return String(value);
  if (value !== 0 && (Math.abs(value) < 0.01 || Math.abs(value) >= 1e7)) return shortExponent(value);
  const decimals = String(value).split(".")[1]?.length ?? 0;
  return formatFixed(value, Math.min(decimals, 20));
}

function shortExponent(value: number): string {
  const digits = [0, 1, 2, 3, 4, 6, 9, 12, 16].find((some) => Number(value.toExponential(some)) === value);
  return formatExponent(value, digits ?? 16);
}

/** A map: in an object, a metric called "constructor" would be there already. */
const WORDS = new Map([
  ["started_at", "Started"],
  ["bytes", "Disk"],
  ["steps_per_s", "Steps/s"],
  ["samples_per_s", "Samples/s"],
]);

/** A key as a short head of a column: `summary.val_loss` is "Val loss", `config.trainer.lr` is "lr". */
export function titleOf(key: string): string {
  if (key.startsWith("config.")) return key.slice(key.lastIndexOf(".") + 1);
  const name = key.replace(/^summary\./, "");
  const words = WORDS.get(name) ?? name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}
