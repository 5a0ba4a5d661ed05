import { describe, expect, it } from "vitest";
import { endLabel, type Line, labelRoom, pointAt, spread, stepExtent, valueAxis } from "./lines";

const line = (step: number[], value: number[]): Line => ({ id: "1", label: "1", step, value, colour: "red" });

describe("lines", () => {
  it("span the steps of all of them", () => {
    expect(stepExtent([line([5, 6], [1, 1]), line([2, 3], [1, 1]), line([], [])])).toEqual([2, 6]);
    expect(stepExtent([line([], [])])).toBeNull();
  });

  it("find the last point at or before a step", () => {
    const one = line([2, 4, 8], [0, 0, 0]);
    expect([1, 2, 5, 9].map((step) => pointAt(one, step))).toEqual([null, 0, 1, 2]);
  });

  it("show a threshold that lies near, and not one far away", () => {
    const limit = (value: number) => ({ value, label: "", colour: "", textColour: "" });
    const lines = [line([1, 2], [0.2, 0.3])];
    expect(valueAxis(lines, [1, 2], [limit(0.15)], 5).low).toBeLessThan(0.15);
    expect(valueAxis(lines, [1, 2], [limit(50)], 5).high).toBeLessThan(1);
    expect(valueAxis([line([1], [Number.NaN])], [1, 1], [], 5)).toMatchObject({ low: 0, high: 1 });
  });

  it("stand on a log scale of the values that have a place on it", () => {
    const axis = valueAxis([line([1, 2, 3], [0, 1e-4, 1])], [1, 3], [], 5, true);
    expect(axis.low).toBeGreaterThan(1e-5);
    expect(axis.unit(1e-2)).toBeCloseTo(0.5);
  });

  it("make room for their labels, of which the end tells layers apart", () => {
    const named = (label: string, dashed = false) => ({ ...line([1], [1]), label, dashed });
    expect(endLabel("blocks.0.att.in_proj_weight")).toBe("….att.in_proj_weight");
    expect(endLabel("31")).toBe("31");
    expect(labelRoom([named("31"), named("29, no longer watched", true)])).toBe(44);
    expect(labelRoom([named("blocks.0.ff.2.weight")])).toBe(132);
  });

  it("move labels apart that would stand on each other, in their order and inside", () => {
    expect(spread([10, 11, 50], 12, 0, 100)).toEqual([10, 22, 50]);
    expect(spread([98, 99], 12, 0, 100)).toEqual([88, 100]);
    expect(spread([], 12, 0, 100)).toEqual([]);
  });
});
