/** Values that the Data page draws, computed from the responses; no markup. */
import { type ClusterOut, fromWire, type NegativeOut, type PairOut, type ScheduleOut } from "@/api/types";

/** Clusters with a colour of their own; the others are grey until they are chosen. */
export const COLOURED = 6;

export const SPLITS = ["all", "train", "val", "test"] as const;
export type SplitChoice = (typeof SPLITS)[number];

export const VARIANTS = ["zero", "centroid", "keyword", "residual"] as const;
/** Nothing is added to the question in the zero variant, so it has no colour of its own. */
export const VARIANT_TOKENS = ["line3", "series-1", "series-2", "series-3"] as const;

export const SCHEDULE_NAMES: Readonly<Record<string, string>> = {
  linear_zero: "Linear zero",
  distance_gated: "Distance gated",
  bands: "Bands",
};

export const TIER_WORDS: Readonly<Record<number, string>> = {
  1: "in the cluster",
  2: "adjacent clusters",
  3: "similar, outside the cluster",
  4: "random, distant clusters",
};

export function sizeOf({ pairs }: Pick<ClusterOut, "pairs">): number {
  return Object.values(pairs).reduce((sum, count) => sum + count, 0);
}

/** The colour slot of each cluster: the largest have one each, null for the rest. */
export function clusterColours(clusters: readonly ClusterOut[]): ReadonlyMap<number, number> {
  const bySize = [...clusters].sort((a, b) => sizeOf(b) - sizeOf(a) || a.cluster - b.cluster);
  return new Map(bySize.slice(0, COLOURED).map(({ cluster }, slot) => [cluster, slot]));
}

export interface Tier {
  tier: number;
  negatives: readonly NegativeOut[];
  /** Mean cosine to the question; null where none is a number. */
  mean: number | null;
}

/** The negatives by tier, the nearest to the question first. */
export function tiersOf(negatives: readonly NegativeOut[]): Tier[] {
  const tiers = [...new Set(negatives.map(({ tier }) => tier))].sort((a, b) => a - b);
  return tiers.map((tier) => {
    const mine = negatives.filter((one) => one.tier === tier);
    const near = mine.map(({ similarity }) => fromWire(similarity) ?? Number.NaN);
    const known = near.filter(Number.isFinite);
    return {
      tier,
      negatives: [...mine].sort(
        (a, b) => (fromWire(b.similarity) ?? -2) - (fromWire(a.similarity) ?? -2) || a.place - b.place,
      ),
      mean: known.length > 0 ? known.reduce((sum, one) => sum + one, 0) / known.length : null,
    };
  });
}

/** The largest cosine of a pair, which bars are drawn against; never 0. */
export function largestSimilarity({ source, negatives }: Pick<PairOut, "source" | "negatives">): number {
  const all = [source, ...negatives].map(({ similarity }) => fromWire(similarity) ?? 0);
  return Math.max(...all.filter(Number.isFinite), 1e-9);
}

/** Shares of an epoch stacked: where each variant begins and ends, 0…1 from the bottom. */
export function stackOf(shares: readonly number[]): (readonly [from: number, to: number])[] {
  let height = 0;
  return shares.map((share) => {
    const from = height;
    height += Math.max(0, Number.isFinite(share) ? share : 0);
    return [from, height] as const;
  });
}

/** The shares of a schedule as plain numbers, an epoch a row. */
export function sharesOf({ shares }: Pick<ScheduleOut, "shares">): number[][] {
  return shares.map((row) => row.map((share) => fromWire(share) ?? Number.NaN));
}

/** Epochs in which something changes against the one before; the last of the others is where a schedule rests. */
export function constantFrom(shares: readonly (readonly number[])[]): number {
  let rest = shares.length - 1;
  const last = shares[rest];
  while (rest > 0 && shares[rest - 1]?.every((share, at) => Math.abs(share - (last?.[at] ?? 0)) < 1e-9))
    rest -= 1;
  return Math.max(rest, 0);
}

/** A number in the address, or null for anything else. */
export function wholeNumber(text: string): number | null {
  return /^\d{1,12}$/.test(text) ? Number(text) : null;
}
