import { describe, expect, it } from "vitest";
import { compareCells, ranksFromLargest, sortedPlaces } from "./order";
import { standsOut, summarise, zScores } from "./statistics";
import { magnitude, markColour, viridis } from "./viridis";

describe("statistics", () => {
  it("summarises the finite values only", () => {
    const summary = summarise([1, 2, Number.NaN, 3, Number.POSITIVE_INFINITY]);
    expect(summary).toMatchObject({ count: 5, finite: 3, mean: 2, minimum: 1, maximum: 3 });
    expect(summary.deviation).toBeCloseTo(Math.sqrt(2 / 3), 12);
    expect(summarise([]).mean).toBeNaN();
  });

  it("rings six bad samples among 128 and no other", () => {
    const losses = Array.from({ length: 128 }, (_, index) =>
      index % 21 === 5 ? 0.8 : 0.05 + (index % 7) * 0.01,
    );
    const z = zScores(losses);
    const ringed = losses.filter((loss, index) => standsOut(loss, z[index] as number));
    expect(ringed).toEqual(new Array(6).fill(0.8));
  });

  it("rings a loss that is not a number, and nothing in a constant batch", () => {
    const z = zScores([1, 1, Number.NaN]);
    expect([...z]).toEqual([0, 0, Number.NaN]);
    expect(standsOut(Number.NaN, Number.NaN)).toBe(true);
    expect(standsOut(1, 0)).toBe(false);
  });
});

describe("order", () => {
  it.each(["ascending", "descending"] as const)("puts NaN and missing last when %s", (direction) => {
    const cells = [Number.NaN, 2, null, 1, Number.POSITIVE_INFINITY];
    const sorted = [...sortedPlaces(cells, direction)].map((place) => cells[place]);
    const numbers =
      direction === "ascending" ? [1, 2, Number.POSITIVE_INFINITY] : [Number.POSITIVE_INFINITY, 2, 1];
    expect(sorted).toEqual([...numbers, Number.NaN, null]);
  });

  it("keeps the place of equal cells and reads digits in texts as numbers", () => {
    expect([...sortedPlaces([1, 0, 1, 0], "descending")]).toEqual([0, 2, 1, 3]);
    expect(compareCells("layer 2", "layer 10", "ascending")).toBeLessThan(0);
  });

  it("ranks the largest first and NaN last", () => {
    expect([...ranksFromLargest([0.1, Number.NaN, 0.9])]).toEqual([2, 3, 1]);
  });
});

describe("viridis", () => {
  it("runs from purple to yellow and clamps", () => {
    expect(viridis(0)).toEqual([68, 1, 84]);
    expect(viridis(1)).toEqual([253, 231, 37]);
    expect(viridis(Number.NaN)).toEqual(viridis(-3));
  });

  it("keeps marks off the end that would vanish", () => {
    expect(markColour(0, "dark")).not.toBe(markColour(0, "light"));
    expect(markColour(1, "dark")).not.toBe(markColour(1, "light"));
  });

  it("places a loss on a log scale, and linearly where a log has no place", () => {
    expect(magnitude(0.1, 0.01, 1)).toBeCloseTo(0.5, 12);
    expect(magnitude(5, 0, 10)).toBe(0.5);
    expect(magnitude(3, 3, 3)).toBe(0.5);
  });
});
