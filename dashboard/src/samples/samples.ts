/** The samples of a batch as the grid shows them: order, loss, rank, which ones stand out. */
import type { ReactNode } from "react";
import { type BatchOut, fromWire } from "@/api/types";
import { magnitude } from "@/charts/colors/viridis";
import { formatValue, type TileScale, tileScale } from "@/lib/format";
import { isOutlier, summarise, zScores } from "@/lib/statistics";
import { ranksFromLargest, sortedIndices } from "@/ui/table/sortCells";

export type Order = "loader" | "loss";

export interface Sample {
  /** Index in the batch as the loader gave it. */
  batchIndex: number;
  /** Id where the loader knows one, else its index. */
  id: number;
  label: string | null;
  /** What the model says of it. */
  prediction: string | null;
  /** Whether a predicted class is the label; null where no classes are compared. */
  isRight: boolean | null;
  loss: number | null;
  /** Rank by loss, 1 for the largest. */
  rank: number | null;
  /** Position of the loss on the magnitude ramp, 0…1. */
  magnitude: number;
  isOutlier: boolean;
  /** Its values that are not finite. */
  broken: number;
}

/** What is told of a sample besides its line; `onOpen` shows it at full size. */
export type DescribeSample = (sample: Sample, onOpen: () => void) => ReactNode;

export interface Samples {
  /** Those that are loaded, in the order of the loader: `first` and the following ones. */
  all: Sample[];
  first: number;
  /** Samples in the batch, loaded or not. */
  total: number;
  /** Range of the losses on the colour scale, and what they are written in; null when no loss is known. */
  lossRange: { low: number; high: number; scale: TileScale } | null;
}

export function samplesOf(batch: BatchOut): Samples {
  const losses = batch.losses?.slice(0, batch.shown).map((loss) => fromWire(loss) ?? Number.NaN) ?? null;
  const range = losses === null ? null : summarise(losses);
  const lossRange = range?.finite
    ? {
        low: range.minimum,
        high: range.maximum,
        scale: tileScale(Math.max(Math.abs(range.minimum), Math.abs(range.maximum))),
      }
    : null;
  const z = losses && zScores(losses);
  const ranks = losses && ranksFromLargest(losses);
  const all = Array.from({ length: batch.shown }, (_, index): Sample => {
    const loss = losses?.[index] ?? null;
    const batchIndex = batch.first + index;
    return {
      batchIndex,
      id: batch.sample_ids?.[index] ?? batchIndex,
      label: cellOf(batch.labels?.[index]),
      prediction: cellOf(batch.predictions?.[index]),
      isRight: isRight(batch, index),
      loss,
      rank: ranks?.[index] ?? null,
      magnitude: loss === null || !lossRange ? 0 : magnitude(loss, lossRange.low, lossRange.high),
      isOutlier: loss !== null && isOutlier(loss, z?.[index] ?? 0),
      broken: batch.nonfinite_in?.[index] ?? 0,
    };
  });
  return { all, first: batch.first, total: batch.count, lossRange };
}

type WireCell = number | string | null | undefined;

/** A class stays as it is; a measured number gets four figures. */
function cellOf(value: WireCell): string | null {
  // An empty text: the target says nothing that the input does not.
  if (value === null || value === undefined || value === "") return null;
  if (typeof value === "string") return value;
  return Number.isInteger(value) ? String(value) : formatValue(value);
}

/** Classes have probabilities; other predictions are not simply right or wrong. */
function isRight({ labels, predictions, probabilities }: BatchOut, index: number): boolean | null {
  const [label, prediction] = [labels?.[index], predictions?.[index]];
  if (!probabilities || label == null || prediction == null) return null;
  return label === prediction;
}

/** A sample by its index in the batch; undefined while it is not loaded. */
export function sampleAt({ all, first }: Samples, batchIndex: number | undefined): Sample | undefined {
  return batchIndex === undefined ? undefined : all[batchIndex - first];
}

/** Indices into the batch in the order they are shown: all in the loader's order, or those that are loaded by loss. */
export function shownOrder(samples: Samples, order: Order): number[] {
  if (order === "loader" || samples.lossRange === null)
    return Array.from({ length: samples.total }, (_, batchIndex) => batchIndex);
  const losses = samples.all.map(({ loss }) => loss);
  return [...sortedIndices(losses, "descending")].map((index) => index + samples.first);
}

/** Samples that are loaded while nothing is scrolled. */
export const SHOWN_AT_FIRST = 64;
/** Samples of one request at most. */
export const MAX_SHOWN = 512;
