import { describe, expect, it } from "vitest";
import { summarise } from "@/lib/statistics";
import { fenceOf } from "./robust";
import { smooth } from "./smooth";
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
  const trend = new Trend({ smoothing, robust: true, window, fewest });
  trend.follow({ step: Float64Array.from(steps), value: Float64Array.from(values) });
  return trend;
}

describe("Trend", () => {
  it("smooths the whole series, and leaves unusual values out", () => {
    const spiked = value.map((one, index) => (index % 300 === 150 ? 1e5 : one));
    const trend = trendOf(step, spiked);
    expect(trend.smoothed.slice(0, 900)).toEqual(smooth(spiked, 0.9, fenceOf(spiked, false)));
    for (const one of trend.smoothed.slice(0, 900)) expect(one).toBeLessThan(1003);
    const whole = new Trend({ smoothing: 0.9, robust: false, window: 50, fewest: FEWEST });
    whole.follow({ step, value: spiked });
    expect(whole.smoothed.slice(0, 900)).toEqual(smooth(spiked, 0.9));
  });

  it("does not lag behind a falling loss, also while it grows", () => {
    const ramp = step.map((one) => 9 - one / 100);
    const growing = new Trend({ smoothing: 0.9, robust: true, window: 50, fewest: FEWEST });
    for (let end = 7; end <= 900; end += 7) {
      growing.follow({ step: step.subarray(0, end), value: ramp.subarray(0, end) });
      expect(growing.smoothed[end - 1]).toBeCloseTo(ramp[end - 1] as number, 9);
    }
  });

  it("continues level through many unusual values that come one by one", () => {
    const spiked = Float64Array.from({ length: 2_060 }, (_, index) =>
      index < 2_000 ? (value[index % 900] ?? 0) : 1e5,
    );
    const steps = spiked.map((_, index) => index);
    const growing = new Trend({ smoothing: 0.5, robust: true, window: 50, fewest: FEWEST });
    for (let end = 1_990; end <= spiked.length; end += 1)
      growing.follow({ step: steps.subarray(0, end), value: spiked.subarray(0, end) });
    const level = growing.smoothed[1_999] as number;
    for (const one of growing.smoothed.slice(2_000, spiked.length)) expect(one).toBeCloseTo(level, 9);
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
    // With a long part in which every second value is a gap.
    const broken = value.map((one, index) =>
      index > 600 && index < 820 ? (index % 2 ? 1e6 : Number.NaN) : one,
    );
    const growing = new Trend({ smoothing: 0.5, robust: false, window: 50, fewest: FEWEST });
    const whole = new Trend({ smoothing: 0.5, robust: false, window: 50, fewest: FEWEST });
    for (const series of [value, broken]) {
      for (let end = 0; end <= 900; end += 9)
        growing.follow({ step: step.subarray(0, end), value: series.subarray(0, end) });
      whole.follow({ step, value: series });
      growing.smoothed.slice(0, 900).forEach((one, index) => {
        const wanted = whole.smoothed[index] as number;
        if (Number.isNaN(wanted)) expect(one).toBeNaN();
        else expect(one / wanted).toBeCloseTo(1, 6);
      });
      growing.follow({ step: step.subarray(0, 0), value: series.subarray(0, 0) });
      whole.follow({ step: step.subarray(0, 0), value: series.subarray(0, 0) });
    }
  });

  it("leaves a gap and no trace where a value is not finite", () => {
    const trend = trendOf([0, 1, 2], [4, Number.NaN, 4], 0.5, 8);
    expect([...trend.smoothed.slice(0, 3)]).toEqual([4, Number.NaN, 4]);
  });

  it("starts over when the run went back or the series was filled from the front", () => {
    const trend = trendOf([5, 6, 7, 8], [5, 6, 7, 8]);
    trend.follow({ step: Float64Array.of(5, 6, 7), value: Float64Array.of(5, 6, 1) });
    expect(trend.smoothed.slice(0, 3)).toEqual(trendOf([5, 6, 7], [5, 6, 1]).smoothed.slice(0, 3));
    trend.follow({ step: Float64Array.of(0, 5, 6, 7), value: Float64Array.of(9, 5, 6, 1) });
    expect(trend.smoothed.slice(0, 4)).toEqual(trendOf([0, 5, 6, 7], [9, 5, 6, 1]).smoothed.slice(0, 4));
  });
});
