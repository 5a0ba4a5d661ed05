import { describe, expect, it } from "vitest";
import { fittingWeight, smooth } from "./smooth";

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

  it("goes on through values beyond the fence as if they had not been measured", () => {
    const values = [50, 3, 1, 40, Number.NaN, 4, -9, 2];
    const expected = slowly(
      values.map((value) => (value > 10 || value < 0 ? Number.NaN : value)),
      0.8,
    );
    const smoothed = Array.from(smooth(values, 0.8, [0, 10]));
    // The mean before stays; there is none yet at the first value, and none where nothing was measured.
    expect(smoothed[0]).toBeNaN();
    expect(smoothed[3]).toBe(smoothed[2]);
    expect(smoothed[4]).toBeNaN();
    expect(smoothed[6]).toBe(smoothed[5]);
    for (const index of [1, 2, 5, 7]) expect(smoothed[index]).toBeCloseTo(expected[index] as number, 12);
  });

  it("starts at the first value, not on the way to it from 0", () => {
    for (const value of smooth(new Array(50).fill(3), 0.99)) expect(value).toBeCloseTo(3, 12);
  });

  it("changes nothing with weight 0 and leaves gaps where they are", () => {
    expect(Array.from(smooth([1, Number.NaN, 3], 0))).toEqual([1, Number.NaN, 3]);
    expect(Array.from(smooth([2, Number.POSITIVE_INFINITY, 2], 0.5))).toEqual([2, Number.NaN, 2]);
  });
});

describe("fittingWeight", () => {
  it("is the one asked for, but no mean of more than a twentieth of the points", () => {
    expect(fittingWeight(0.95, 3_000)).toBe(0.95);
    expect(fittingWeight(0.99, 400)).toBeCloseTo(0.95, 12);
    expect(fittingWeight(0.99, 20)).toBe(0);
    expect(fittingWeight(0.5, 0)).toBe(0);
  });
});
