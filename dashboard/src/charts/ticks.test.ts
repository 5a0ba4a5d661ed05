import { describe, expect, it } from "vitest";
import { linearSplits, logLabel, logLabels, logSplits, sameDecimals } from "./ticks";

describe("sameDecimals", () => {
  it("gives every tick the decimals that their distance needs", () => {
    expect(sameDecimals([0.06, 0.07, 0.08])).toEqual(["0.06", "0.07", "0.08"]);
    expect(sameDecimals([0, 0.5, 1])).toEqual(["0.0", "0.5", "1.0"]);
    expect(sameDecimals([11_900, 12_000])).toEqual(["11,900", "12,000"]);
    expect(sameDecimals([0.0075, 0.01, 0.0125])).toEqual(["0.0075", "0.0100", "0.0125"]);
    expect(sameDecimals([-1, 0, 1])).toEqual(["−1", "0", "1"]);
  });

  it("writes very small and very large ones with an exponent", () => {
    expect(sameDecimals([1e-4, 2e-4])).toEqual(["1e−4", "2e−4"]);
    expect(sameDecimals([0, 1e7])).toEqual(["0", "1e7"]);
  });

  it("leaves out what the axis leaves out", () => {
    expect(sameDecimals([0.1, null, 1])).toEqual(["0.1", "", "1.0"]);
    expect(sameDecimals([])).toEqual([]);
  });
});

describe("logSplits", () => {
  it("takes 1-2-5, 1-3 or decades, whatever has room", () => {
    expect(logSplits(0.0193, 2.4, 8)).toEqual([0.02, 0.05, 0.1, 0.2, 0.5, 1, 2]);
    expect(logSplits(0.0193, 2.4, 5)).toEqual([0.03, 0.1, 0.3, 1]);
    expect(logSplits(0.001934, 2.4, 4)).toEqual([0.01, 0.1, 1]);
    expect(logSplits(1e-9, 1, 4)).toEqual([1e-9, 1e-6, 1e-3, 1]);
  });

  it("divides less than a decade evenly", () => {
    expect(logSplits(0.0021, 0.0034, 6)).toEqual([0.0025, 0.003]);
    expect(logSplits(0.98, 1.02, 5)).toEqual([0.98, 0.99, 1, 1.01, 1.02]);
  });

  it.each([
    [0.001934, 0.31, 6],
    [0.3, 0.9, 6],
    [1.1, 1.9, 7],
    [3e-8, 4e3, 7],
  ])("gives a few ticks within %s and %s", (low, high, most) => {
    const ticks = logSplits(low, high, most);
    expect(ticks.length).toBeGreaterThanOrEqual(2);
    expect(ticks.length).toBeLessThanOrEqual(most + 1);
    expect(Math.min(...ticks)).toBeGreaterThanOrEqual(low);
    expect(Math.max(...ticks)).toBeLessThanOrEqual(high);
    for (const tick of ticks) expect(logLabel(tick).length).toBeLessThanOrEqual(7);
  });

  it("has none where there is no range", () => {
    expect(logSplits(0, 1, 5)).toEqual([]);
    expect(logSplits(1, 1, 5)).toEqual([]);
  });
});

describe("logLabel", () => {
  it.each([
    [0.3, "0.3"],
    [0.1, "0.1"],
    [0.03, "0.03"],
    [0.003, "3e−3"],
    [0.0025, "2.5e−3"],
    [20, "20"],
    [1000, "1,000"],
    [1e4, "1e4"],
    [null, ""],
  ])("%s → %s", (value, text) => expect(logLabel(value)).toBe(text));
});

describe("linearSplits", () => {
  it("stand evenly at round numbers, also below 0", () => {
    expect(linearSplits(-1, 1, 4)).toEqual([-1, -0.5, 0, 0.5, 1]);
    expect(linearSplits(3, 3, 4)).toEqual([3]);
    expect(linearSplits(Number.NaN, 1, 4)).toEqual([]);
  });
});

describe("labels of an axis", () => {
  const ranges: [number, number][] = [
    [1.2e-4, 1.43e-4],
    [0.5, 0.5000001],
    [123_456.7, 123_457.3],
    [1e7, 1e7 + 3],
    [-1e-9, 1e-9],
    [0, 1e9],
  ];

  it.each(ranges)("never repeat between %s and %s", (low, high) => {
    for (const most of [4, 6, 9]) {
      const splits = linearSplits(low, high, most);
      expect(splits.length).toBeGreaterThan(1);
      expect(new Set(sameDecimals(splits)).size).toBe(splits.length);
    }
  });

  it.each(ranges.filter(([low]) => low > 0))("never repeat on a log scale from %s to %s", (low, high) => {
    const splits = logSplits(low, high, 6);
    expect(splits.length).toBeGreaterThan(1);
    expect(new Set(logLabels(splits)).size).toBe(splits.length);
  });
});
