import { describe, expect, it } from "vitest";
import { middleOf, smooth, timeLabel } from "./smoothing";

/** The weighted mean of all points so far, written out. */
function slowly(values: readonly number[], weight: number): number[] {
  return values.map((_, last) => {
    let sum = 0;
    let weights = 0;
    for (let index = 0; index <= last; index += 1) {
      sum += weight ** (last - index) * (values[index] as number);
      weights += weight ** (last - index);
    }
    return sum / weights;
  });
}

describe("smooth", () => {
  it("is the weighted mean of all points before", () => {
    const values = [3, 1, 4, 1, 5, 9, 2, 6];
    const expected = slowly(values, 0.8);
    Array.from(smooth(values, 0.8)).forEach((value, index) => {
      expect(value).toBeCloseTo(expected[index] as number, 12);
    });
  });

  it("changes nothing with weight 0 and leaves gaps where they are", () => {
    expect(Array.from(smooth([1, Number.NaN, 3], 0))).toEqual([1, Number.NaN, 3]);
    expect(Array.from(smooth([2, Number.POSITIVE_INFINITY, 2], 0.5))).toEqual([2, Number.NaN, 2]);
  });
});

describe("middleOf", () => {
  it("is the curve itself where it is exact, else the middle of its buckets", () => {
    const low = Float64Array.of(1, 2);
    const high = Float64Array.of(3, 2);
    expect(middleOf({ low, high, exact: true })).toBe(low);
    expect(Array.from(middleOf({ low, high, exact: false }))).toEqual([2, 2]);
  });
});

describe("timeLabel", () => {
  it("takes the unit of the whole axis", () => {
    expect(timeLabel(45, 60)).toBe("45 s");
    expect(timeLabel(1800, 3600)).toBe("30 min");
    expect(timeLabel(5400, 40_000)).toBe("1.5 h");
  });
});
