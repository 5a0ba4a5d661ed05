import { describe, expect, it } from "vitest";
import {
  cursorText,
  endLabel,
  extentOf,
  type Line,
  labelRoom,
  lineUnder,
  nearestPoint,
  pointAt,
  snapToPoint,
  spread,
} from "./lines";

const line = (x: number[], y: number[], changes: Partial<Line> = {}): Line => ({
  id: "1",
  label: "1",
  x,
  y,
  colour: "red",
  ...changes,
});

function noise(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) % 4294967296;
    return state / 4294967296;
  };
}

describe("points of lines", () => {
  it("span the x of all of them", () => {
    expect(extentOf([line([5, 6], [1, 1]), line([2, 3], [1, 1]), line([], [])])).toEqual([2, 6]);
    expect(extentOf([line([], [])])).toBeNull();
  });

  it("finds the last point at or before a step", () => {
    const one = line([2, 4, 8], [0, 0, 0]);
    expect([1, 2, 5, 9].map((step) => pointAt(one, step))).toEqual([null, 0, 1, 2]);
  });

  it.each([1, 2, 3])("finds the same nearest point as a search through all of them (seed %i)", (seed) => {
    const random = noise(seed);
    const x = Array.from({ length: 60 }, () => Math.floor(random() * 40)).sort((a, b) => a - b);
    for (let wanted = -3; wanted < 44; wanted += 0.25) {
      const slow = Math.min(...x.map((one) => Math.abs(one - wanted)));
      const index = nearestPoint({ x }, wanted);
      expect(Math.abs((x[index] as number) - wanted)).toBe(slow);
    }
    expect(nearestPoint({ x: [] }, 3)).toBe(-1);
  });

  it("snaps to the nearest point of any line and reads what was measured there", () => {
    const smoothed = line([0, 10, 20], [1, 1, 1], { raw: [5, 6, 7] });
    const other = line([4], [9], { id: "2" });
    expect(snapToPoint([smoothed, other], 9)).toEqual({ id: "1", index: 1, x: 10, y: 6 });
    expect(snapToPoint([smoothed, other], 5)).toEqual({ id: "2", index: 0, x: 4, y: 9 });
    expect(snapToPoint([], 5)).toBeNull();
  });
});

describe("lineUnder", () => {
  const projection = (logY = false) => ({ px: (x: number) => x, py: (y: number) => 100 - y * 100, logY });
  const flat = (id: string, y: number, faint = false) =>
    line(
      Array.from({ length: 11 }, (_, index) => index * 10),
      Array.from({ length: 11 }, () => y),
      { id, faint },
    );

  it("finds the line nearest to the pointer, and the point nearest along it", () => {
    const lines = [flat("low", 0.2), flat("high", 0.8)];
    expect(lineUnder(lines, projection(), 52, 52, 23)).toMatchObject({ id: "high", index: 5, x: 50 });
    expect(lineUnder(lines, projection(), 48, 48, 81)).toMatchObject({ id: "low", index: 5 });
  });

  it("means nothing far from every line", () => {
    expect(lineUnder([flat("low", 0.1)], projection(), 50, 50, 20)).toBeNull();
  });

  it("prefers a line with a colour and passes over what a log scale cannot show", () => {
    expect(lineUnder([flat("grey", 0.5, true), flat("named", 0.5)], projection(), 50, 50, 50)?.id).toBe(
      "named",
    );
    expect(lineUnder([flat("zero", 0)], projection(true), 50, 50, 100)).toBeNull();
  });
});

describe("labels", () => {
  it("make room for names, of which the end tells layers apart", () => {
    const named = (label: string, dashed = false) => line([1], [1], { label, dashed });
    expect(endLabel("blocks.0.att.in_proj_weight")).toBe("….att.in_proj_weight");
    expect(endLabel("31")).toBe("31");
    expect(labelRoom([named("31"), named("29, no longer watched", true)], 900)).toBe(44);
    expect(labelRoom([named("blocks.0.ff.2.weight")], 900)).toBe(136);
    expect(labelRoom([named("blocks.0.ff.2.weight")], 120)).toBe(40);
    expect(labelRoom([line([1], [1], { endText: "0.1 at step 1" })], 900)).toBe(12);
  });

  it("move apart that would overlap, in their order and inside", () => {
    expect(spread([10, 11, 50], 12, 0, 100)).toEqual([10, 22, 50]);
    expect(spread([98, 99], 12, 0, 100)).toEqual([88, 100]);
    expect(spread([], 12, 0, 100)).toEqual([]);
  });

  it("read out every line at a step, faint ones left out", () => {
    const lines = [line([1, 5], [0.25, 0.5]), line([1], [7], { label: "2", faint: true })];
    expect(cursorText(lines, 1_200)).toBe("step 1,200  1 0.500");
  });
});
