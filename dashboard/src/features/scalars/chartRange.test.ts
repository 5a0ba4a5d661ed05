import { describe, expect, it } from "vitest";
import { panned, rangeView, readView, valueRange, viewRange, viewText, zoomed } from "./chartRange";

describe("view", () => {
  it("shows the last 600 steps with room for the future", () => {
    expect(viewRange({ kind: "recent" }, 0, 12_480)).toEqual([11_880, 12_504]);
    expect(viewRange({ kind: "all" }, 0, 100)).toEqual([0, 104]);
    expect(viewRange({ kind: "recent" }, 0, 3)[1]).toBeCloseTo(20.8, 9);
  });

  it("keeps a zoomed range while the run goes on", () => {
    const view = rangeView(100, 200, 0, 1000);
    expect(viewRange(view, 0, 1000)).toEqual(viewRange(view, 0, 5000));
  });

  it("zooms about a step and falls back to everything", () => {
    expect(zoomed([0, 1000], 500, 0.5, 0, 1000)).toEqual({ kind: "range", from: 250, to: 750 });
    expect(zoomed([0, 1000], 500, 2, 0, 1000)).toEqual({ kind: "all" });
  });

  it("stays within the series and never gets too narrow", () => {
    expect(rangeView(-50, 50, 0, 1000)).toEqual({ kind: "range", from: 0, to: 100 });
    expect(panned([900, 1000], 0.5, 0, 1000)).toEqual({ kind: "range", from: 940, to: 1040 });
    expect(rangeView(500, 501, 0, 1000)).toEqual({ kind: "range", from: 491, to: 511 });
  });

  it.each(["all", "100-200", null])("comes back from the address as it went in: %s", (text) => {
    expect(viewText(readView(text))).toBe(text);
  });

  it("takes nonsense in the address for the default", () => {
    expect(readView("9-3")).toEqual({ kind: "recent" });
    expect(readView("x")).toEqual({ kind: "recent" });
  });
});

describe("valueRange", () => {
  it("holds the whole raw line and does not let the band squeeze it", () => {
    const [low, high] = valueRange([1, 2, null], [-100, null, null], [3, null, null], false);
    expect(low).toBeGreaterThan(0.4);
    expect(low).toBeLessThan(1);
    expect(high).toBeGreaterThan(2.35);
    expect(high).toBeLessThan(2.6);
  });

  it("stays above zero where the values do", () => {
    expect(valueRange([0.3, 0.02], [-1, -1], [1, 1], false)[0]).toBe(0);
    expect(valueRange([-0.3, 0.02], [], [], false)[0]).toBeLessThan(-0.3);
  });

  it("has a range for nothing and for a constant", () => {
    expect(valueRange([], [], [], false)).toEqual([0, 1]);
    const [low, high] = valueRange([5, 5], [], [], false);
    expect(low).toBeLessThan(5);
    expect(high).toBeGreaterThan(5);
    expect(valueRange([5], [], [], true)[0]).toBeGreaterThan(0);
  });
});
