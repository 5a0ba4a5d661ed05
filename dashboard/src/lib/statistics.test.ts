import { describe, expect, it } from "vitest";
import { isOutlier, summarise, zScores } from "./statistics";

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
    const ringed = losses.filter((loss, index) => isOutlier(loss, z[index] as number));
    expect(ringed).toEqual(new Array(6).fill(0.8));
  });

  it("rings a loss that is not a number, and nothing in a constant batch", () => {
    const z = zScores([1, 1, Number.NaN]);
    expect([...z]).toEqual([0, 0, Number.NaN]);
    expect(isOutlier(Number.NaN, Number.NaN)).toBe(true);
    expect(isOutlier(1, 0)).toBe(false);
  });
});
