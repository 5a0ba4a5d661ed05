import { describe, expect, it } from "vitest";
import { decimate, gather, lowerBound, visibleWindow } from "./decimate";

/** The obvious way: bin every index, then look for extremes and the first gap of each bin. */
function slowTwin(steps: number[], values: number[], start: number, stop: number, columns: number): number[] {
  if (stop - start <= columns * 2) return steps.map((_, index) => index).slice(start, stop);
  const first = steps[start] as number;
  const span = (steps[stop - 1] as number) - first;
  const bins = new Map<number, number[]>();
  for (let index = start; index < stop; index += 1) {
    const target = Math.floor(((steps[index] as number) - first) * (columns / span));
    const bin = Math.min(columns - 1, target);
    bins.set(bin, [...(bins.get(bin) ?? []), index]);
  }
  return [...bins.values()].flatMap((members) => {
    const finite = members.filter((index) => !Number.isNaN(values[index]));
    const extremes = finite.map((index) => values[index] as number);
    const kept = new Set<number>();
    if (finite.length) {
      kept.add(finite[extremes.indexOf(Math.min(...extremes))] as number);
      kept.add(finite[extremes.indexOf(Math.max(...extremes))] as number);
    }
    const gap = members.find((index) => Number.isNaN(values[index]));
    if (gap !== undefined) kept.add(gap);
    return [...kept].sort((a, b) => a - b);
  });
}

function noise(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) % 4294967296;
    return state / 4294967296;
  };
}

describe("decimate", () => {
  it.each([1, 2, 3, 4, 5])("agrees with the slow twin on uneven steps with gaps (seed %i)", (seed) => {
    const random = noise(seed);
    const steps: number[] = [];
    const values: number[] = [];
    for (let step = 0; steps.length < 3000; step += 1 + Math.floor(random() * 4)) {
      steps.push(step);
      values.push(random() < 0.02 ? Number.NaN : random());
    }
    for (const [start, stop, columns] of [
      [0, 3000, 97],
      [17, 2500, 500],
      [100, 160, 50],
    ] as const) {
      const fast = decimate(steps, values, { start, stop }, columns);
      expect([...fast]).toEqual(slowTwin(steps, values, start, stop, columns));
    }
  });

  it("keeps a single spike among a million points", () => {
    const steps = Float64Array.from({ length: 1_000_000 }, (_, index) => index);
    const values = new Float64Array(1_000_000).fill(0.5);
    values[654_321] = 9;
    const kept = decimate(steps, values, { start: 0, stop: 1_000_000 }, 500);
    expect(kept.length).toBeLessThanOrEqual(1500);
    expect([...kept]).toContain(654_321);
  });

  it("returns short windows whole and empty windows empty", () => {
    expect([...decimate([1, 2, 3], [4, 5, 6], { start: 0, stop: 3 }, 10)]).toEqual([0, 1, 2]);
    expect([...decimate([], [], { start: 0, stop: 0 }, 10)]).toEqual([]);
  });

  it("survives a window of one repeated step", () => {
    const steps = new Array(100).fill(7);
    const values = steps.map((_, index) => index);
    expect([...decimate(steps, values, { start: 0, stop: 100 }, 10)]).toEqual([0, 99]);
  });
});

describe("visibleWindow", () => {
  it("takes one neighbour each side", () => {
    const steps = [0, 10, 20, 30, 40, 50];
    expect(visibleWindow(steps, 6, 15, 35)).toEqual({ start: 1, stop: 6 });
    expect(visibleWindow(steps, 6, -5, 5)).toEqual({ start: 0, stop: 3 });
  });

  it("finds the first index that is not below", () => {
    expect(lowerBound([1, 3, 3, 9], 4, 3)).toBe(1);
    expect(lowerBound([1, 3, 3, 9], 4, 10)).toBe(4);
  });
});

describe("gather", () => {
  it("turns what cannot be drawn into gaps", () => {
    const values = [1, Number.NaN, Number.POSITIVE_INFINITY, -1, 0];
    const all = Uint32Array.from([0, 1, 2, 3, 4]);
    expect(gather(values, all)).toEqual([1, null, null, -1, 0]);
    expect(gather(values, all, true)).toEqual([1, null, null, null, null]);
  });
});
