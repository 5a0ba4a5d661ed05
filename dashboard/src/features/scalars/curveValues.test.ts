import { describe, expect, it } from "vitest";
import { middleOf, timeLabel } from "./curveValues";

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
