import { describe, expect, it } from "vitest";
import { axisOf, linearAxis, logAxis } from "./axis";

describe("axisOf", () => {
  it("holds all finite values with room around them", () => {
    const axis = axisOf([2, 4, Number.NaN, Number.POSITIVE_INFINITY], false, 5);
    expect(axis.low).toBeLessThan(2);
    expect(axis.high).toBeGreaterThan(4);
    expect(axis.unit(axis.low)).toBe(0);
    expect(axis.value(axis.unit(3.5))).toBeCloseTo(3.5);
  });

  it("starts near 0 where values do", () => {
    const axis = axisOf([0.1, 10], false, 5);
    expect(axis.low).toBeGreaterThan(-0.5);
    expect(axis.ticks[0]?.label).toBe("0");
  });

  it("leaves out of a log axis what has no place there, and puts it at its start", () => {
    const axis = axisOf([0, 1e-3, 10, -4], true, 5);
    expect(axis.low).toBeLessThan(1e-3);
    expect(axis.low).toBeGreaterThan(1e-4);
    expect(axis.unit(0)).toBe(0);
    expect(axis.value(axis.unit(0.5))).toBeCloseTo(0.5);
  });

  it("survives constants and nothing at all", () => {
    expect(axisOf([0, 0], false, 5).unit(0)).toBeGreaterThan(0);
    expect(axisOf([], true, 5)).toMatchObject({ low: 0.1, high: 1 });
  });

  it("labels its ticks with the same decimals", () => {
    expect(linearAxis(0, 1, 5).ticks.map(({ label }) => label)).toEqual([
      "0.0",
      "0.2",
      "0.4",
      "0.6",
      "0.8",
      "1.0",
    ]);
    expect(logAxis(1e-3, 100, 6).ticks.map(({ label }) => label)).toContain("0.1");
  });
});
