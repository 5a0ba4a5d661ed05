/** Names of what is measured, as people read them. */

const WORDS = new Map(
  Object.entries({
    val_loss: "Validation loss",
    best_val_loss: "Best validation loss",
    train_loss: "Training loss",
    test_loss: "Test loss",
    steps_per_s: "Steps/s",
    samples_per_s: "Samples/s",
    lr: "Learning rate",
    grad_norm: "Gradient norm",
  }),
);

/** `val_loss` is "Validation loss", `weight_cos` is "Weight cos". */
export function metricTitle(name: string): string {
  const words = WORDS.get(name) ?? name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

const FIRST = ["val_loss", "best_val_loss", "loss", "train_loss"];

/**
 * What one looks at first, of what these runs have measured; null where there is nothing.
 *
 * A metric of one odd run is not it: at least half of the runs have it, or there is none that so many have.
 */
export function mainMetric(runs: readonly (readonly string[])[]): string | null {
  const counts = new Map<string, number>();
  for (const names of runs) for (const name of new Set(names)) counts.set(name, (counts.get(name) ?? 0) + 1);
  const measured = runs.filter((names) => names.length > 0).length;
  const common = [...counts.keys()].filter((name) => 2 * (counts.get(name) ?? 0) >= measured);
  const known = FIRST.find((name) => common.includes(name)) ?? FIRST.find((name) => counts.has(name));
  return known ?? lossMetric(common.sort()) ?? [...counts.keys()].sort()[0] ?? null;
}

/** What the loss chart of a run shows until another metric is chosen; null where there are none. */
export function lossMetric(names: readonly string[]): string | null {
  if (names.includes("loss")) return "loss";
  return names.find((name) => name.toLowerCase().includes("loss")) ?? names[0] ?? null;
}

/** Values of the list that were worked out of others and have no curve of their own. */
const WORKED_OUT = new Set(["best_val_loss", "steps_per_s"]);

/** Metrics of a run that have curves: logged at steps, or at the ends of epochs. */
export function metricsOf(run: {
  scalars: readonly string[];
  summary: Readonly<Record<string, unknown>>;
}): string[] {
  const epochNames = Object.keys(run.summary).filter((name) => !WORKED_OUT.has(name));
  return [...new Set([...run.scalars, ...epochNames])];
}
