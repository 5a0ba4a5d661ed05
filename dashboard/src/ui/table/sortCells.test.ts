import { describe, expect, it } from "vitest";
import { compareCells, ranksFromLargest, sortedIndices } from "./sortCells";

describe("sorted cells", () => {
  it.each(["ascending", "descending"] as const)("puts NaN and missing last when %s", (direction) => {
    const cells = [Number.NaN, 2, null, 1, Number.POSITIVE_INFINITY];
    const sorted = [...sortedIndices(cells, direction)].map((index) => cells[index]);
    const numbers =
      direction === "ascending" ? [1, 2, Number.POSITIVE_INFINITY] : [Number.POSITIVE_INFINITY, 2, 1];
    expect(sorted).toEqual([...numbers, Number.NaN, null]);
  });

  it("keeps the place of equal cells and reads digits in texts as numbers", () => {
    expect([...sortedIndices([1, 0, 1, 0], "descending")]).toEqual([0, 2, 1, 3]);
    expect(compareCells("layer 2", "layer 10", "ascending")).toBeLessThan(0);
  });

  it("ranks the largest first and NaN last", () => {
    expect([...ranksFromLargest([0.1, Number.NaN, 0.9])]).toEqual([2, 3, 1]);
  });
});
