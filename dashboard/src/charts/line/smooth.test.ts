import { describe, expect, it } from "vitest";
import { fittingWeight, smooth } from "./smooth";

/** At each point the height of the line with the least weighted squares, written out; the fence is 0 to 100. */
function slowly(values: readonly number[], weight: number): number[] {
  const indices = values.map((_, index) => index);
  const counted = indices.filter(
    (index) => (values[index] as number) >= 0 && (values[index] as number) <= 100,
  );
  const rank = (index: number) => counted.indexOf(index);
  return counted.map((here) => {
    const weights = counted.map((index) => weight ** Math.abs(rank(index) - rank(here)));
    const mean = (of: (index: number) => number) =>
      counted.reduce((sum, index, at) => sum + (weights[at] as number) * of(index), 0) /
      weights.reduce((sum, one) => sum + one, 0);
    const [x, y] = [mean((index) => index), mean((index) => values[index] as number)];
    const spread = mean((index) => (index - x) ** 2);
    const slope = mean((index) => (index - x) * ((values[index] as number) - y)) / spread;
    return y + slope * (here - x);
  });
}

const noisy = Float64Array.from(
  { length: 60 },
  (_, index) => 50 + 20 * Math.sin(index / 9) + 6 * Math.sin(index * 2.3),
);

describe("smooth", () => {
  it.each([0.3, 0.8, 0.99])("is the line fitted to both sides (weight %d)", (weight) => {
    const values = Array.from(noisy);
    for (const [index, odd] of [
      [7, Number.NaN],
      [20, 4000],
      [21, -300],
      [41, Number.POSITIVE_INFINITY],
    ])
      values[index as number] = odd as number;
    const counted = values.flatMap((value, index) => (value >= 0 && value <= 100 ? index : []));
    const smoothed = smooth(values, weight, [0, 100]);
    const slow = slowly(values, weight);
    counted.forEach((index, at) => {
      expect(smoothed[index]).toBeCloseTo(slow[at] as number, 9);
    });
    // A gap stays one; the line is straight through what is beyond the fence.
    for (const index of [7, 41]) expect(smoothed[index]).toBeNaN();
    const [from, to] = [smoothed[19] as number, smoothed[22] as number];
    expect(smoothed[20]).toBeCloseTo(from + (to - from) / 3, 9);
    expect(smoothed[21]).toBeCloseTo(from + (2 * (to - from)) / 3, 9);
  });

  it.each([0.5, 0.93, 0.99])("does not lag behind a ramp, also at its ends (weight %d)", (weight) => {
    const ramp = Array.from({ length: 400 }, (_, index) => 8 - 0.02 * index);
    ramp[100] = Number.NaN;
    ramp[200] = 900;
    const smoothed = smooth(ramp, weight, [-1, 9]);
    for (const [index, value] of ramp.entries())
      if (index !== 100) expect(smoothed[index]).toBeCloseTo(index === 200 ? 4 : value, 9);
  });

  it("turns where the values turn", () => {
    const peak = Array.from({ length: 201 }, (_, index) => -Math.abs(index - 100));
    const smoothed = Array.from(smooth(peak, 0.9));
    expect(smoothed.indexOf(Math.max(...smoothed))).toBe(100);
  });

  it("is level where no point beyond the fence has a neighbour that counts", () => {
    const smoothed = smooth([900, 3, 4, 800, 700], 0.5, [0, 10]);
    expect(smoothed[0]).toBe(smoothed[1]);
    expect(smoothed[3]).toBe(smoothed[2]);
    expect(smoothed[4]).toBe(smoothed[2]);
    expect(Array.from(smooth([900, Number.NaN], 0.5, [0, 10]))).toEqual([Number.NaN, Number.NaN]);
  });

  it("is never beyond what was measured, such as below 0", () => {
    const smoothed = smooth([5, 0, 0, 0, 0], 0.8);
    expect(Math.min(...smoothed)).toBeGreaterThanOrEqual(0);
  });

  it("of a constant is that constant", () => {
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
