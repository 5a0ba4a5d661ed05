/** The samples of a batch as the grid shows them: order, loss, rank, which ones stand out. */
import { type BatchOut, fromWire } from "@/api/types";
import { magnitude } from "@/charts/colors/viridis";
import { type TileScale, tileScale } from "@/lib/format";
import { isOutlier, summarise, zScores } from "@/lib/statistics";
import { ranksFromLargest, sortedIndices } from "@/ui/table/sortCells";

export type Order = "loader" | "loss";

export interface Sample {
  /** Index in the batch as the loader gave it, which is also its index in the picture. */
  batchIndex: number;
  /** Id where the loader knows one, else its index. */
  id: number;
  label: string | null;
  loss: number | null;
  /** Rank by loss, 1 for the largest. */
  rank: number | null;
  /** Position of the loss on the magnitude ramp, 0…1. */
  magnitude: number;
  isOutlier: boolean;
}

export interface Samples {
  /** In the order of the loader. */
  all: Sample[];
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
  const all = Array.from({ length: batch.shown }, (_, batchIndex): Sample => {
    const loss = losses?.[batchIndex] ?? null;
    return {
      batchIndex,
      id: batch.sample_ids?.[batchIndex] ?? batchIndex,
      label: labelText(batch.labels?.[batchIndex]),
      loss,
      rank: ranks?.[batchIndex] ?? null,
      magnitude: loss === null || !lossRange ? 0 : magnitude(loss, lossRange.low, lossRange.high),
      isOutlier: loss !== null && isOutlier(loss, z?.[batchIndex] ?? 0),
    };
  });
  return { all, lossRange };
}

function labelText(label: number | string | undefined): string | null {
  return label === undefined ? null : String(label);
}

/** Indices into the batch in the order they are shown. */
export function shownOrder(samples: Samples, order: Order): number[] {
  if (order === "loader" || samples.lossRange === null)
    return samples.all.map(({ batchIndex }) => batchIndex);
  return [
    ...sortedIndices(
      samples.all.map(({ loss }) => loss),
      "descending",
    ),
  ];
}
