/** The points of the map as a scatter wants them: questions first, then a point for each centroid. */
import { type DatasetMapOut, fromWire } from "@/api/types";

export interface MapPoints {
  x: number[];
  y: number[];
  /** Of questions only, so that a point beyond its length is a centroid. */
  pair: number[];
  cluster: number[];
  centroids: { x: number[]; y: number[] };
}

/** Indices of the places that stay at least `apart` from all before them; the first wins. */
export function apartFrom(
  positions: readonly (readonly [x: number, y: number] | null)[],
  order: readonly number[],
  apart: number,
): Set<number> {
  const kept: number[] = [];
  const far = (one: number, other: number) => {
    const [a, b] = [positions[one], positions[other]];
    return !a || !b || Math.hypot(a[0] - b[0], a[1] - b[1]) >= apart;
  };
  for (const each of order) if (positions[each] && kept.every((other) => far(each, other))) kept.push(each);
  return new Set(kept);
}

type Wire = DatasetMapOut["centroids"];

const numbersOf = (values: Wire["x"]) => values.map((value) => fromWire(value) ?? Number.NaN);

export function mapPoints({ centroids, questions }: DatasetMapOut): MapPoints {
  const middle = { x: numbersOf(centroids.x), y: numbersOf(centroids.y) };
  return {
    x: [...numbersOf(questions.x), ...middle.x],
    y: [...numbersOf(questions.y), ...middle.y],
    pair: questions.pair,
    cluster: questions.cluster,
    centroids: middle,
  };
}
