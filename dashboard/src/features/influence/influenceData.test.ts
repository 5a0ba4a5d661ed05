import { describe, expect, it } from "vitest";
import type { InfluenceOut, InfluenceRequestOut } from "@/api/types";
import {
  actualOf,
  cellsOf,
  changesUnder,
  contributionsTo,
  coverageOf,
  type InfluenceData,
  orderOf,
  readAdvantages,
  writeAdvantages,
} from "./influenceData";

const sequence = (id: string, prompt: string, total: number) => ({
  sequence_id: id,
  global_prompt_id: prompt,
  prompt,
  response: "5",
  reward: 1,
  logprob: -1,
  entropy: 0.5,
  norm: 2,
  delta: { total, kernel: total - 0.5, momentum: 0.25, decay: 0.25 },
});
const update = [
  { ...sequence("U-0", "1+1=", 0), advantage: 1, normaliser: 0.5, weight: 0.5 },
  { ...sequence("U-1", "1+1=", 0), advantage: -1, normaliser: 0.5, weight: -0.5 },
  { ...sequence("U-2", "2+2=", 0), advantage: 2, normaliser: 0.5, weight: 1 },
];
// Δ kernel = 0.1 · K · w: [0.1 (1·0.5 − 2·0.5 + 3), 0.1 (−0.5 − 0 + 4)].
const influence = {
  result: {
    step: { lr: 0.2, rate: 0.5, clip_factor: 1, gradient_norm: 3 },
    update,
    validation: {
      sequence_ids: ["E-0", "E-1"],
      slope: 1,
      rates: [{ lr: 0.2, relative_error: 0.1, correlation: 1, predicted: [1, 2], actual: [1.1, "NaN"] }],
      after: null,
    },
  } as unknown as InfluenceOut,
  batch: {
    sequences: [
      { ...sequence("E-0", "3+3=", 0.75), contributors: [] },
      { ...sequence("E-1", "3+3=", 0.85), contributors: [] },
    ],
  } as unknown as InfluenceRequestOut,
  kernel: { rows: 2, columns: 3, values: [1, 2, 3, -1, 0, 4] },
} satisfies InfluenceData;

const rounded = (values: ArrayLike<number>) => Array.from(values, (value) => Number(value.toFixed(6)));

describe("cellsOf", () => {
  it("gives what each sequence of the update does to each evaluated one", () => {
    expect(rounded(cellsOf(influence, "contribution") ?? [])).toEqual([0.05, -0.1, 0.3, -0.05, 0, 0.4]);
    expect(rounded(cellsOf(influence, "cosine") ?? [])).toEqual([0.25, 0.5, 0.75, -0.25, 0, 1]);
  });
});

describe("contributionsTo", () => {
  it("sorts by size, whatever the sign", () => {
    const rows = contributionsTo(influence, 0);
    expect(rows.map(({ sequence: { sequence_id } }) => sequence_id)).toEqual(["U-2", "U-1", "U-0"]);
    expect(rounded(rows.map(({ value }) => value))).toEqual([0.3, -0.1, 0.05]);
  });

  it("falls back on the stored ones without a kernel", () => {
    const [first] = influence.batch.sequences;
    if (first === undefined) throw new Error("no sequence");
    const stored = [{ sequence_id: "U-1", contribution: -0.1, kernel: 2, cosine: 0.5, advantage: -1 }];
    const batch = { ...influence.batch, sequences: [{ ...first, contributors: stored }] };
    expect(contributionsTo({ ...influence, batch, kernel: null }, 0).map(({ value }) => value)).toEqual([
      -0.1,
    ]);
  });
});

describe("changesUnder", () => {
  it("moves the kernel's term alone", () => {
    const [first, second] = changesUnder(influence, new Map([["U-2", 0]]));
    expect(first?.rest).toBe(0.5);
    expect(rounded([first?.total ?? 0, second?.total ?? 0])).toEqual([0.45, 0.45]);
  });

  it("leaves the stored change as it is when nothing is changed", () => {
    expect(changesUnder(influence, new Map()).map(({ total }) => total)).toEqual([0.75, 0.85]);
  });
});

describe("advantages in the address", () => {
  it("come back as they were written, and nonsense is left out", () => {
    const changed = new Map([
      ["U-0", 0],
      ["U-2", -1.5],
    ]);
    expect(readAdvantages(writeAdvantages(changed), update)).toEqual(changed);
    expect(readAdvantages("U-0:x,U-9:1,U-1:,:3,U-2", update).size).toBe(0);
  });
});

describe("orderOf", () => {
  it("puts the most moved and the most moving first", () => {
    expect(orderOf(influence, "effect")).toEqual({ rows: [1, 0], columns: [2, 0, 1] });
    expect(orderOf(influence, "prompt")).toEqual({ rows: [0, 1], columns: [0, 1, 2] });
  });
});

describe("actualOf", () => {
  it("finds the true change at the step's own rate", () => {
    expect(actualOf(influence.result, "E-0")).toEqual({ predicted: 1, actual: 1.1 });
    expect(actualOf(influence.result, "E-1")?.actual).toBeNaN();
    expect(actualOf(influence.result, "E-7")).toBeNull();
  });
});

describe("coverageOf", () => {
  it("lists every group, also those with none and those it does not know", () => {
    const rows = coverageOf({ mlp: 0.25, strange: 0.75 });
    expect(rows.slice(0, 2)).toEqual([
      { name: "strange", share: 0.75 },
      { name: "MLP", share: 0.25 },
    ]);
    expect(rows.filter(({ share }) => share === 0)).toHaveLength(8);
  });
});
