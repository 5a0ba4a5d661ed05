import { describe, expect, it } from "vitest";
import type { ScalarsMessage } from "@/api/types";
import { Series, SeriesStore } from "./series";

function frame(
  firstSeq: number,
  steps: number[],
  timeline = 0,
  values = steps.map((step) => step / 10),
): ScalarsMessage {
  return {
    type: "scalars",
    first_seq: firstSeq,
    last_seq: firstSeq + steps.length - 1,
    timeline,
    step: steps,
    columns: { loss: values },
  };
}

const stepsOf = (store: SeriesStore, name = "loss") => [...(store.get(name)?.view().step ?? [])];
const points = (steps: number[], timeline = 0, exact = true) => {
  const step = Float64Array.from(steps);
  return {
    step,
    low: step.map((value) => value / 10),
    high: step.map((value) => value / 5),
    exact,
    timeline,
  };
};

describe("SeriesStore", () => {
  it("takes each frame once, whatever is sent again", () => {
    const store = new SeriesStore();
    expect(store.append(frame(1, [1, 2, 3]))).toBe(true);
    expect(store.append(frame(1, [1, 2, 3]))).toBe(false);
    expect(store.append(frame(3, [3, 4]))).toBe(true);
    expect(stepsOf(store)).toEqual([1, 2, 3, 4]);
  });

  it("puts a fill in front of what the stream brought meanwhile, without gap or repeat", () => {
    const store = new SeriesStore();
    store.append(frame(6, [6, 7]));
    store.fill("loss", points([1, 2, 3, 4, 5, 6]));
    store.append(frame(8, [8]));
    expect(stepsOf(store)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });

  it("does not name a series that was asked for and has no values", () => {
    const store = new SeriesStore();
    store.fill("loss", points([]));
    expect(store.names).toEqual([]);
    store.append(frame(1, [1]));
    expect(store.names).toEqual(["loss"]);
  });

  it("takes frames that a fill already held", () => {
    const store = new SeriesStore();
    store.fill("loss", points([1, 2, 3]));
    store.append(frame(2, [2, 3, 4]));
    expect(stepsOf(store)).toEqual([1, 2, 3, 4]);
  });

  it("loses the steps that a rewind has undone, once", () => {
    const store = new SeriesStore();
    store.append(frame(1, [1, 2, 3, 4]));
    expect(store.wentBack(0, 2)).toBe(false);
    expect(store.wentBack(1, 2)).toBe(true);
    expect(store.wentBack(1, 2)).toBe(false);
    expect(stepsOf(store)).toEqual([1, 2]);
  });

  it("sets aside what a rewind has undone, and joins what two rewinds in a row undid", () => {
    const store = new SeriesStore();
    const left = () => store.get("loss")?.abandoned.map(({ step }) => [...step]);
    store.append(frame(1, [1, 2, 3, 4, 5, 6]));
    store.wentBack(1, 5);
    store.wentBack(2, 3);
    expect(left()).toEqual([[4, 5, 6]]);
    store.append(frame(7, [4], 2));
    store.wentBack(3, 3);
    expect(left()).toEqual([[4, 5, 6], [4]]);
    expect(stepsOf(store)).toEqual([1, 2, 3]);
  });

  it("starts over from where a higher timeline begins", () => {
    const store = new SeriesStore();
    store.append(frame(1, [1, 2, 3, 4]));
    store.append(frame(5, [3], 1, [0.9]));
    expect(stepsOf(store)).toEqual([1, 2, 3]);
    expect([...(store.get("loss")?.view().value ?? [])]).toEqual([0.1, 0.2, 0.9]);
  });

  it("lets a fill of a higher timeline cut what is no longer true", () => {
    const store = new SeriesStore();
    store.append(frame(1, [1, 2, 3, 4, 5]));
    store.fill("loss", points([1, 2, 3], 1));
    expect(stepsOf(store)).toEqual([1, 2, 3]);
  });

  it("keeps NaN and infinities as values and leaves out what was not logged", () => {
    const store = new SeriesStore();
    store.append({ ...frame(1, [1, 2, 3]), columns: { loss: ["NaN", "-Infinity", null] } });
    expect([...(store.get("loss")?.view().value ?? [])]).toEqual([Number.NaN, Number.NEGATIVE_INFINITY]);
  });

  it("draws both ends of a bucket when the fill is not exact", () => {
    const store = new SeriesStore();
    store.fill("loss", points([10, 20], 0, false));
    expect(stepsOf(store)).toEqual([10, 10, 20, 20]);
    expect([...(store.get("loss")?.view().value ?? [])]).toEqual([1, 2, 2, 4]);
  });
});

describe("Series", () => {
  it("finds the first point at or behind a step", () => {
    const series = new Series();
    for (const step of [1, 3, 5]) series.append(step, 0);
    expect([0, 1, 2, 5, 6].map((step) => series.indexOf(step))).toEqual([0, 0, 1, 2, 3]);
  });

  it("keeps the extremes of the older half and says so when it holds too many points", () => {
    const series = new Series();
    for (let step = 0; step < 17; step += 1)
      series.append(step, step === 5 ? 99 : step === 2 ? Number.NaN : 1, 16);
    const { step, value } = series.view();
    expect(series.exact).toBe(false);
    expect(series.length).toBeLessThan(17);
    expect([...value]).toContain(99);
    expect(value.some(Number.isNaN)).toBe(true);
    expect([...step]).toEqual([...step].sort((a, b) => a - b));
    expect(step.at(-1)).toBe(16);
  });

  it("holds a million points exactly", () => {
    const series = new Series();
    for (let step = 0; step < 1_000_000; step += 1) series.append(step, step);
    expect(series.exact).toBe(true);
    expect(series.view().value[999_999]).toBe(999_999);
  });
});
