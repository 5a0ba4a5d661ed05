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
