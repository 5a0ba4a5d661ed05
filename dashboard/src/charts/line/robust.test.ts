import { describe, expect, it } from "vitest";
import type { Line } from "./lines";
import { countOutside, FEWEST_VALUES, fenceOf, isWithin, robustLimits } from "./robust";

/** The same numbers each time, without a pattern. */
function noise(count: number, seed = 1): number[] {
  let state = seed;
  return Array.from({ length: count }, () => {
    state = (state * 16_807) % 2_147_483_647;
    return state / 2_147_483_647;
  });
}
const line = (y: number[], changes: Partial<Line> = {}): Line => ({
  id: "1",
  label: "1",
  x: y.map((_, index) => index),
  y,
  colour: "",
  ...changes,
});
/** 1,000 values from 1 to 2 with `value` in place of each hundredth. */
const spiked = (value: number) => noise(1_000).map((one, index) => (index % 100 === 50 ? value : 1 + one));

describe("fenceOf", () => {
  it.each([9, 1e30, -9])("leaves out spikes of %s and no other value", (spike) => {
    const values = spiked(spike);
    const outside = values.filter((value) => !isWithin(value, fenceOf(values, false)));
    expect(outside).toEqual(Array.from({ length: 10 }, () => spike));
  });

  it("judges by what is finite and does not change with the length", () => {
    const values = spiked(9).flatMap((value) => [value, Number.NaN, Number.POSITIVE_INFINITY]);
    const [low, high] = fenceOf(values, false) ?? [];
    const [slowLow, slowHigh] = slowFence(values.filter(Number.isFinite));
    expect(low).toBeCloseTo(slowLow, 0);
    expect(high).toBeCloseTo(slowHigh, 0);
    expect(
      fenceOf(
        new Float64Array(500_000).map((_, index) => values[index % 3_000] as number),
        false,
      ),
    ).toEqual([expect.closeTo(slowLow, 0), expect.closeTo(slowHigh, 0)]);
  });

  it("shows everything of few values, of a constant and of a slow fall", () => {
    expect(fenceOf(noise(FEWEST_VALUES - 1).with(3, 1e9), false)).toBeNull();
    expect(fenceOf(new Array(100).fill(0).with(3, 1), false)).toBeNull();
    const constant = new Array(1_000).fill(17.4).fill(8, 0, 30);
    expect(constant.every((value) => isWithin(value, fenceOf(constant, false)))).toBe(true);
    const fall = Array.from({ length: 1_000 }, (_, step) => 0.5 + 2 * Math.exp(-step / 300));
    expect(fall.every((value) => isWithin(value, fenceOf(fall, false)))).toBe(true);
  });

  it("counts in decades on a log scale, where values up to 0 have no place", () => {
    const values = spiked(1e9).with(7, 0).with(9, -4);
    const fence = fenceOf(values, true);
    expect(isWithin(1e9, fence)).toBe(false);
    expect(isWithin(0.3, fence)).toBe(true);
  });
});

/** Quantiles of all values, as the definition says. */
function slowFence(values: number[]): [number, number] {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))] as number;
  const width = Math.max(at(0.95) - at(0.05), 0.25 * Math.abs(at(0.5)));
  return [at(0.05) - 3 * width, at(0.95) + 3 * width];
}

describe("robustLimits", () => {
  const healthy = (seed: number) => line(noise(200, seed).map((one) => 1 + one));
  const diverged = line(Array.from({ length: 200 }, (_, step) => 1 + 1.2 ** step));

  it("is nothing where all values are usual", () => {
    expect(robustLimits([healthy(1), healthy(2)], false)).toBeNull();
    expect(robustLimits([], false)).toBeNull();
    expect(robustLimits([line([Number.NaN, 1, 1e9])], false)).toBeNull();
  });

  it("does not let one diverged line flatten one or more others, whatever their order", () => {
    for (const others of [[healthy(3)], [healthy(3), healthy(4), healthy(5)]]) {
      for (const lines of [
        [diverged, ...others],
        [...others, diverged],
      ]) {
        const [low, high] = robustLimits(lines, false) ?? [0, 0];
        expect(low).toBeGreaterThanOrEqual(1);
        expect(high).toBeLessThanOrEqual(2);
      }
    }
  });

  it("takes its range from no line of a few points, which is the narrowest of all", () => {
    const falling = line(noise(200, 7).map((one, index) => 5 * 0.97 ** index + 0.01 * one));
    const [point, wild] = [line([1.3]), line([900])];
    expect(robustLimits([point, falling], false)).toBeNull();
    const [low, high] = robustLimits([wild, point, falling], false) ?? [0, 0];
    expect(low).toBeLessThan(0.1);
    expect(high).toBeGreaterThan(1.3);
    expect(high).toBeLessThan(10);
    expect(robustLimits([point, line([1.4])], false)).toBeNull();
  });

  it("shows lines whole that differ by as much as can be read", () => {
    const wider = line(noise(200, 6).map((one) => 5 * one));
    expect(robustLimits([healthy(1), wider, line(new Array(200).fill(1))], false)).toBeNull();
  });
});

describe("countOutside", () => {
  it("counts measured values of the shown part, on both sides", () => {
    const lines = [line([0, 0, 0, 0, 0], { raw: [9, 1, 12, -5, Number.NaN] }), line([1, 1, 7])];
    expect(countOutside(lines, [0, 5], [1, 4])).toEqual({ above: 2, below: 1, highest: 12, lowest: -5 });
    expect(countOutside(lines, null, [0, 4])).toMatchObject({ above: 0, below: 0 });
  });
});
