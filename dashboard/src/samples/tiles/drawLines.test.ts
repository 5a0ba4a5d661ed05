import { describe, expect, it } from "vitest";
import { brokenPoints, curveOf, type Lines, rangeOf, symmetric } from "./drawLines";

const LINES: Lines = {
  channels: 2,
  points: 3,
  length: 30,
  low: [
    [-1, 0, -2, 5, "NaN", 6],
    [0, 0, 0, 0, 0, 0],
  ],
  high: [
    [1, 0, 3, 5, "NaN", 7],
    [0, 0, 0, 0, 0, 0],
  ],
};

describe("curves", () => {
  it("have the numbers of their sample, and intervals with a NaN in any channel", () => {
    const curve = curveOf(LINES, 0);
    expect([...curve.low]).toEqual([-1, 0, -2, 5, Number.NaN, 6]);
    expect(brokenPoints(curve)).toEqual([1]);
    expect(brokenPoints(curveOf(LINES, 1))).toEqual([]);
  });

  it("share a range that is never empty", () => {
    expect(rangeOf([curveOf(LINES, 0), curveOf(LINES, 1)])).toEqual([-2, 7]);
    expect(rangeOf([curveOf(LINES, 1)])).toEqual([-0.5, 0.5]);
    expect(rangeOf([])).toEqual([0, 1]);
    expect(symmetric([-2, 7])).toEqual([-7, 7]);
  });
});
