import { describe, expect, it } from "vitest";
import { summarise } from "@/lib/statistics";
import { FEWEST, Trend } from "./trend";

const value = Float64Array.from(
  { length: 900 },
  (_, index) => 1000 + Math.sin(index * 0.7) + (index % 13) * 0.1,
);
const step = value.map((_, index) => index);

function trendOf(
  steps: ArrayLike<number>,
  values: ArrayLike<number>,
  smoothing = 0.9,
  window = 50,
  fewest = FEWEST,
): Trend {
  const trend = new Trend({ smoothing, window, fewest });
  trend.follow({ step: Float64Array.from(steps), value: Float64Array.from(values) });
  return trend;
}

describe("Trend", () => {
  it("smooths like the written-out exponential mean", () => {
    const trend = trendOf(step, value);
    for (const at of [0, 1, 10, 500]) {
      const weights = [...value.slice(0, at + 1)].map((_, index) => 0.9 ** (at - index));
      const total = weights.reduce((sum, weight) => sum + weight, 0);
      const weighted = weights.reduce((sum, weight, index) => sum + weight * (value[index] as number), 0);
      expect(trend.smoothed[at]).toBeCloseTo(weighted / total, 9);
    }
  });

  it("knows mean and deviation of the window before each point", () => {
    const trend = trendOf(step, value);
    for (const at of [8, 49, 50, 51, 100, 899]) {
      const slow = summarise(value.slice(Math.max(0, at - 50), at));
      expect(trend.mean[at]).toBeCloseTo(slow.mean, 9);
      expect(trend.deviation[at]).toBeCloseTo(slow.deviation, 7);
    }
    expect(trend.mean[7]).toBeNaN();
  });

  it("has no band before its window holds enough points", () => {
    const trend = trendOf(step, value, 0.9, 50, 50);
    expect(trend.deviation[49]).toBeNaN();
    expect(trend.deviation[50]).toBeGreaterThan(0);
  });

  it("is the same whether points come at once or a few at a time", () => {
    const growing = new Trend({ smoothing: 0.9, window: 50, fewest: FEWEST });
    for (let end = 0; end <= 900; end += 9) {
      growing.follow({ step: step.subarray(0, end), value: value.subarray(0, end) });
    }
    expect(growing.smoothed.slice(0, 900)).toEqual(trendOf(step, value).smoothed.slice(0, 900));
  });

  it("leaves a gap and no trace where a value is not finite", () => {
    const trend = trendOf([0, 1, 2], [4, Number.NaN, 4], 0.5, 8);
    expect([...trend.smoothed.slice(0, 3)]).toEqual([4, Number.NaN, 4]);
    expect(trend.broken).toEqual([1]);
  });

  it("starts over when the run went back or the series was filled from the front", () => {
    const trend = trendOf([5, 6, 7, 8], [5, 6, 7, 8]);
    trend.follow({ step: Float64Array.of(5, 6, 7), value: Float64Array.of(5, 6, 1) });
    expect(trend.smoothed.slice(0, 3)).toEqual(trendOf([5, 6, 7], [5, 6, 1]).smoothed.slice(0, 3));
    trend.follow({ step: Float64Array.of(0, 5, 6, 7), value: Float64Array.of(9, 5, 6, 1) });
    expect(trend.smoothed.slice(0, 4)).toEqual(trendOf([0, 5, 6, 7], [9, 5, 6, 1]).smoothed.slice(0, 4));
  });
});
