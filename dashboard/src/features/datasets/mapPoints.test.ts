import { expect, it } from "vitest";
import type { DatasetMapOut } from "@/api/types";
import { apartFrom, mapPoints } from "./mapPoints";

const map: DatasetMapOut = {
  shares: [0.5, 0.2],
  centroids: { x: [1, 2], y: [3, 4] },
  questions: {
    x: [5, "NaN"],
    y: [6, 7],
    pair: [10, 11],
    question: [0, 1],
    cluster: [1, 0],
    split: ["train", null],
  },
  of: 100,
};

it("puts centroids behind the questions, which alone have pairs", () => {
  const points = mapPoints(map);
  expect(points.x).toEqual([5, Number.NaN, 1, 2]);
  expect(points.y).toEqual([6, 7, 3, 4]);
  expect(points.pair[2]).toBeUndefined();
  expect(points.centroids.y).toEqual([3, 4]);
});

it("keeps the places that do not touch an earlier one", () => {
  const positions = [[0, 0], [5, 0], [30, 0], null] as const;
  expect([...apartFrom(positions, [1, 0, 2, 3], 20)]).toEqual([1, 2]);
  expect([...apartFrom(positions, [0, 1, 2, 3], 5)]).toEqual([0, 1, 2]);
});
