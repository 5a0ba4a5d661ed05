import { describe, expect, it } from "vitest";
import { type Column, type DrawnLine, drawnLine, singlePoints, stretches, valueRange } from "./columns";
import type { Line } from "./lines";

const line = (y: number[], changes: Partial<Line> = {}): Line => ({
  id: "1",
  label: "1",
  x: y.map((_, index) => index),
  y,
  colour: "red",
  ...changes,
});
const drawn = (one: Line, logY = false): DrawnLine => drawnLine(one, [0, one.x.length], 500, logY);
const limit = (value: number) => ({ value, label: "", colour: "", textColour: "" });

describe("drawnLine", () => {
  it("keeps the highest and lowest of a million measured points at the cost of a few thousand", () => {
    const raw = new Float64Array(1_000_000).fill(0.5);
    raw[123_456] = 9;
    raw[765_432] = -9;
    const y = new Float64Array(1_000_000).fill(0.5);
    const x = y.map((_, index) => index);
    const { kept, raw: seen } = drawnLine({ ...line([]), x, y, raw }, [0, 1_000_000], 600, false);
    expect(kept.length).toBeLessThanOrEqual(1_800);
    expect(Math.max(...(seen ?? []).map(Number))).toBe(9);
    expect(Math.min(...(seen ?? []).map(Number))).toBe(-9);
  });

  it("takes every column at the same points, with gaps where a value cannot be drawn", () => {
    const one = line([1, Number.NaN, 3, 0], {
      raw: [2, Number.NaN, 4, 1],
      band: (index) => [index - 1, index + 1],
    });
    expect(drawn(one)).toMatchObject({
      x: [0, 1, 2, 3],
      y: [1, null, 3, 0],
      raw: [2, null, 4, 1],
      low: [-1, 0, 1, 2],
      high: [1, 2, 3, 4],
    });
    expect(drawn(one, true)).toMatchObject({ y: [1, null, 3, null], low: [null, null, 1, 2] });
  });

  it("starts one point before the range and ends one after it", () => {
    const one = line(Array.from({ length: 100 }, (_, index) => index));
    const { kept } = drawnLine(one, [40, 50], 500, false);
    expect([kept[0], kept[kept.length - 1]]).toEqual([39, 51]);
  });
});

describe("valueRange", () => {
  const band = (low: number, high: number) => () => [low, high] as const;

  it("holds every line whole and does not let a band squeeze it", () => {
    const [low, high] = valueRange([drawn(line([1, 2], { band: band(-100, 3) }))], [], false);
    expect(low).toBeGreaterThan(0.4);
    expect(low).toBeLessThan(1);
    expect(high).toBeGreaterThan(2.35);
    expect(high).toBeLessThan(2.6);
  });

  it("holds what was measured behind a smoothed line", () => {
    expect(valueRange([drawn(line([1, 1], { raw: [0, 5] }))], [], false)[1]).toBeGreaterThan(5);
  });

  it("stays above zero where the values do", () => {
    expect(valueRange([drawn(line([0.3, 0.02], { band: band(-1, 1) }))], [], false)[0]).toBe(0);
    expect(valueRange([drawn(line([-0.3, 0.02]))], [], false)[0]).toBeLessThan(-0.3);
  });

  it("holds a threshold that lies near, and not one far away", () => {
    const lines = [drawn(line([0.2, 0.3]))];
    expect(valueRange(lines, [limit(0.15)], false)[0]).toBeLessThan(0.15);
    expect(valueRange(lines, [limit(50)], false)[1]).toBeLessThan(1);
  });

  it("leaves out what lies beyond the limits, and stays there where nothing else is shown", () => {
    const spike = drawn(line([1, 2, 900]));
    expect(valueRange([spike], [], false, [1, 2])[1]).toBeLessThan(2.2);
    expect(valueRange([drawn(line([900]))], [], false, [1, 2])[1]).toBeLessThan(2.2);
    const [low, high] = valueRange([drawn(line([17.4, 17.4 + 1e-14]))], [], false);
    expect(high - low).toBeGreaterThan(1);
  });

  it("has a range for nothing, for a constant and on a log scale", () => {
    expect(valueRange([], [], false)).toEqual([0, 1]);
    expect(valueRange([drawn(line([Number.NaN]))], [], true)).toEqual([0.1, 1]);
    const [low, high] = valueRange([drawn(line([5, 5]))], [], false);
    expect(low).toBeLessThan(5);
    expect(high).toBeGreaterThan(5);
    const [from, to] = valueRange([drawn(line([0, 1e-4, 1]), true)], [], true);
    expect(from).toBeGreaterThan(1e-5);
    expect(to).toBeGreaterThan(1);
  });
});

describe("gaps in a column", () => {
  /** All columns of seven cells with and without values. */
  const columns: Column[] = Array.from({ length: 2 ** 7 }, (_, bits) =>
    Array.from({ length: 7 }, (_, index) => ((bits >> index) & 1 ? index : null)),
  );

  it("leave stretches that hold each index with both values once, and no other", () => {
    for (const low of columns) {
      const high = columns[0b1011011] as Column;
      const covered = stretches(low, high).flatMap(([start, stop]) =>
        Array.from({ length: stop - start }, (_, offset) => start + offset),
      );
      expect(covered).toEqual([0, 1, 2, 3, 4, 5, 6].filter((at) => low[at] !== null && high[at] !== null));
    }
  });

  it("leave single points, which no line would show", () => {
    for (const column of columns) {
      const lone = stretches(column, column).filter(([start, stop]) => stop - start === 1);
      expect(singlePoints(column)).toEqual(lone.map(([start]) => start));
    }
  });
});
