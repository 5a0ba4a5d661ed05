import { describe, expect, it } from "vitest";
import { smooth } from "./smooth";

/** The weighted mean of all finite points so far, written out. */
function slowly(values: readonly number[], weight: number): number[] {
  return values.map((value, last) => {
    if (!Number.isFinite(value)) return Number.NaN;
    const before = values.slice(0, last + 1).filter(Number.isFinite);
    const weights = before.map((_, index) => weight ** (before.length - 1 - index));
    const total = weights.reduce((sum, one) => sum + one, 0);
    return before.reduce((sum, one, index) => sum + one * (weights[index] as number), 0) / total;
  });
}

describe("smooth", () => {
  it.each([0.5, 0.8, 0.99])("is the weighted mean of all points before (weight %d)", (weight) => {
    const values = [3, 1, Number.NaN, 4, 1, 5, Number.POSITIVE_INFINITY, 9, 2, 6];
    const expected = slowly(values, weight);
    Array.from(smooth(values, weight)).forEach((value, index) => {
      const slow = expected[index] as number;
      if (Number.isNaN(slow)) expect(value).toBeNaN();
      else expect(value).toBeCloseTo(slow, 12);
    });
  });

  it("changes nothing with weight 0 and leaves gaps where they are", () => {
    expect(Array.from(smooth([1, Number.NaN, 3], 0))).toEqual([1, Number.NaN, 3]);
    expect(Array.from(smooth([2, Number.POSITIVE_INFINITY, 2], 0.5))).toEqual([2, Number.NaN, 2]);
  });
});
