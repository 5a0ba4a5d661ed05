/** What the panels show of a result, as plain numbers: contributions, orders, and other advantages. */
import type { Kernel } from "@/api/influence";
import {
  fromWire,
  type InfluenceDelta,
  type InfluenceEvaluatedSequence,
  type InfluenceOut,
  type InfluenceRequestOut,
  type InfluenceUpdateSequence,
} from "@/api/types";

export interface InfluenceData {
  result: InfluenceOut;
  batch: InfluenceRequestOut;
  /** Null where K of all pairs was not kept, or has not come yet. */
  kernel: Kernel | null;
}

export type Quantity = "contribution" | "kernel" | "cosine";

type Wire = Parameters<typeof fromWire>[0];

const number = (value: Wire): number => fromWire(value) ?? Number.NaN;

/** The factor before Σ K w, in nats. */
export function factorOf({ lr, rate, clip_factor }: InfluenceOut["step"]): number {
  return number(lr) * number(rate) * number(clip_factor);
}

/** Weights under other advantages; those that were not changed stay as they were. */
export function weightsUnder(
  update: readonly InfluenceUpdateSequence[],
  changed: ReadonlyMap<string, number>,
): Float64Array {
  return Float64Array.from(update, (one) => {
    const advantage = changed.get(one.sequence_id);
    return advantage === undefined ? number(one.weight) : advantage * number(one.normaliser);
  });
}

/** What each cell of the map shows, in the order of the kernel. */
export function cellsOf({ result, batch, kernel }: InfluenceData, quantity: Quantity): Float32Array | null {
  if (kernel === null) return null;
  const { rows, columns, values } = kernel;
  const factor = factorOf(result.step);
  const column = Float64Array.from(result.update, (one) =>
    quantity === "contribution"
      ? factor * number(one.weight)
      : quantity === "cosine"
        ? 1 / number(one.norm)
        : 1,
  );
  const row = Float64Array.from(batch.sequences, (one) => (quantity === "cosine" ? 1 / number(one.norm) : 1));
  const cells = new Float32Array(rows * columns);
  for (let at = 0; at < cells.length; at += 1)
    cells[at] =
      (values[at] as number) * (row[Math.floor(at / columns)] as number) * (column[at % columns] as number);
  return cells;
}

export interface Contribution {
  sequence: InfluenceUpdateSequence;
  /** In nats, signed. */
  value: number;
  cosine: number;
}

/** Who moved an evaluated sequence, largest first, ties by id; from the kernel, else those that were stored. */
export function contributionsTo(influence: InfluenceData, row: number): Contribution[] {
  const { result, batch, kernel } = influence;
  const evaluated = batch.sequences[row];
  if (evaluated === undefined) return [];
  const contributions =
    kernel === null ? storedOf(result, evaluated) : allOf(influence, kernel, row, evaluated);
  return contributions.sort(
    (a, b) =>
      Math.abs(b.value) - Math.abs(a.value) || (a.sequence.sequence_id < b.sequence.sequence_id ? -1 : 1),
  );
}

function allOf(
  { result }: InfluenceData,
  kernel: Kernel,
  row: number,
  evaluated: InfluenceEvaluatedSequence,
) {
  const factor = factorOf(result.step);
  return result.update.map((sequence, column) => {
    const k = kernel.values[row * kernel.columns + column] ?? Number.NaN;
    return {
      sequence,
      value: factor * k * number(sequence.weight),
      cosine: k / (number(evaluated.norm) * number(sequence.norm)),
    };
  });
}

function storedOf(result: InfluenceOut, evaluated: InfluenceEvaluatedSequence): Contribution[] {
  const byId = new Map(result.update.map((one) => [one.sequence_id, one]));
  return evaluated.contributors.flatMap(({ sequence_id, contribution, cosine }) => {
    const sequence = byId.get(sequence_id);
    return sequence ? [{ sequence, value: number(contribution), cosine: number(cosine) }] : [];
  });
}

export interface Change {
  total: number;
  kernel: number;
  /** Momentum and decay together: advantages do not touch them. */
  rest: number;
}

/** A stored change. */
export function changeOf(delta: InfluenceDelta): Change {
  const total = number(delta.total);
  const rest = (fromWire(delta.momentum) ?? 0) + (fromWire(delta.decay) ?? 0);
  return { total, kernel: fromWire(delta.kernel) ?? total - rest, rest };
}

/** The changes of all evaluated sequences under other advantages, the preconditioner held fixed. */
export function changesUnder(influence: InfluenceData, changed: ReadonlyMap<string, number>): Change[] {
  const { result, batch, kernel } = influence;
  const true_ = batch.sequences.map(({ delta }) => changeOf(delta));
  if (kernel === null || changed.size === 0) return true_;
  const before = weightsUnder(result.update, new Map());
  const after = weightsUnder(result.update, changed);
  const factor = factorOf(result.step);
  return true_.map((change, row) => {
    let moved = 0;
    for (let column = 0; column < kernel.columns; column += 1) {
      const by = (after[column] as number) - (before[column] as number);
      if (by !== 0) moved += by * (kernel.values[row * kernel.columns + column] as number);
    }
    // Only the difference comes from the kernel, so that the stored change stays exact.
    return { ...change, kernel: change.kernel + factor * moved, total: change.total + factor * moved };
  });
}

/** Advantages as they stand in the address: `U-000-03:0,U-006-04:1.5`; what cannot be read is left out. */
export function readAdvantages(
  text: string,
  update: readonly InfluenceUpdateSequence[],
): Map<string, number> {
  const known = new Map(update.map((one) => [one.sequence_id, fromWire(one.normaliser)]));
  const advantages = new Map<string, number>();
  for (const part of text === "" ? [] : text.split(",")) {
    const at = part.lastIndexOf(":");
    const [id, value] = [part.slice(0, at), Number(part.slice(at + 1))];
    if (Number.isFinite(value) && part.length > at + 1 && known.get(id) != null) advantages.set(id, value);
  }
  return advantages;
}

export function writeAdvantages(changed: ReadonlyMap<string, number>): string {
  return [...changed].map(([id, value]) => `${id}:${value}`).join(",");
}

export type MapOrder = "prompt" | "effect";

/** Order of rows and columns on the map: as they were sampled, or the most moved and moving first. */
export function orderOf(influence: InfluenceData, order: MapOrder): { rows: number[]; columns: number[] } {
  const { result, batch } = influence;
  const rows = batch.sequences.map((_, index) => index);
  const columns = result.update.map((_, index) => index);
  const cells = order === "effect" ? cellsOf(influence, "contribution") : null;
  if (cells === null) return { rows, columns };
  const weight = new Float64Array(columns.length);
  cells.forEach((value, at) => {
    const column = at % columns.length;
    weight[column] = (weight[column] as number) + Math.abs(value);
  });
  const moved = batch.sequences.map(({ delta }) => number(delta.total));
  rows.sort((a, b) => (moved[b] as number) - (moved[a] as number) || a - b);
  columns.sort((a, b) => (weight[b] as number) - (weight[a] as number) || a - b);
  return { rows, columns };
}

export interface Checked {
  predicted: number;
  actual: number;
}

/** What a true step did to a sequence, at the learning rate of the step where that was tried. */
export function actualOf({ validation, step }: InfluenceOut, sequenceId: string): Checked | null {
  if (validation === null) return null;
  const at = validation.sequence_ids.indexOf(sequenceId);
  const rate = validation.rates.find(({ lr }) => number(lr) === number(step.lr));
  if (at < 0 || rate === undefined) return null;
  return { predicted: number(rate.predicted[at]), actual: number(rate.actual[at]) };
}

const GROUPS = new Map([
  ["mlp", "MLP"],
  ["attention_qkv", "Attention q k v"],
  ["attention_out", "Attention out"],
  ["head", "Head"],
  ["embedding", "Embedding"],
  ["norm", "Norms"],
  ["bias", "Biases"],
  ["position", "Positions"],
  ["adapter", "Adapters"],
]);

/** Shares of the trace by group of parameters, largest first, groups without a share last. */
export function coverageOf(coverage: InfluenceOut["coverage"]): { name: string; share: number }[] {
  const names = [...new Set([...GROUPS.keys(), ...Object.keys(coverage)])];
  const shares = names.map((name) => ({
    name: GROUPS.get(name) ?? name,
    share: fromWire(coverage[name]) ?? 0,
  }));
  return shares.sort((a, b) => b.share - a.share);
}
