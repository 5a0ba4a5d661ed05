import { describe, expect, it } from "vitest";
import type { CosineMatrix } from "@/live/forces";
import { choiceText, inOrderOf, readChoice, rowAt, rowName } from "./sources";

const MATRIX: CosineMatrix = {
  step: 1,
  tensor: "w",
  source: "weights",
  order: "id",
  rows: 3,
  side: 3,
  averaged: false,
  values: Float32Array.of(1, 0.1, 0.2, 0.1, 1, 0.3, 0.2, 0.3, 1),
  permutation: [0, 1, 2],
  mean: 0.2,
  std: 0.1,
  max: 0.3,
};

describe("choices", () => {
  it("stand in the address and come back", () => {
    const choice = { source: "grad_delta", tensor: "decoder.weight" } as const;
    expect(readChoice(choiceText(choice), "weights")).toEqual(choice);
    expect(readChoice("", "som_targets")).toEqual({ source: "som_targets", tensor: null });
    expect(readChoice("nonsense", "weights").source).toBe("weights");
  });
});

describe("rows", () => {
  it("are named by the tensor's numbers, blocks by their places", () => {
    expect(rowName({ ...MATRIX, permutation: [2, 0, 1] }, 0)).toBe("2");
    const blocks = { ...MATRIX, averaged: true, rows: 7, permutation: [6, 5, 4, 3, 2, 1, 0] };
    expect([0, 1, 2].map((shown) => rowName(blocks, shown))).toEqual(["0–1", "2–3", "4–6"]);
    expect(rowAt(blocks, 0)).toBeNull();
    expect(rowAt({ ...MATRIX, permutation: [2, 0, 1] }, 0)).toBe(2);
  });

  it("follow the order of another matrix", () => {
    const moved = inOrderOf(MATRIX, [2, 0, 1]);
    expect([...moved.values].map((value) => Number(value.toFixed(1)))).toEqual([
      1, 0.2, 0.3, 0.2, 1, 0.1, 0.3, 0.1, 1,
    ]);
    expect(moved.permutation).toEqual([2, 0, 1]);
  });
});
