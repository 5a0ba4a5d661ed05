import { describe, expect, it } from "vitest";
import { summarisedElements, Tensor, withTensors } from "./tensors";

const summary = (elements: number) => ({
  summary: true as const,
  shape: [elements],
  dtype: "float32",
  elements,
  finite: elements,
  mean: 0,
  std: 0,
  min: 0,
  max: 0,
});

describe("bulk tensors", () => {
  it("count the elements of all summaries within", () => {
    expect(summarisedElements({ a: summary(5), b: { c: summary(7) }, d: [1, 2, 3] })).toBe(12);
    expect(summarisedElements(summary(9))).toBe(9);
    expect(summarisedElements([1, 2])).toBe(0);
  });

  it("take the place of their summaries by dotted names, and leave the rest", () => {
    const tensor = new Tensor([5], Float32Array.of(1, 2, 3, 4, 5));
    const data = { rate: summary(5), names: ["a"], other: summary(6) };
    const replaced = withTensors(data, "my/key", new Map([["my/key.rate", tensor]])) as Record<
      string,
      unknown
    >;
    expect(replaced.rate).toBe(tensor);
    expect(replaced.names).toEqual(["a"]);
    expect(replaced.other).toBe(data.other);
    expect(withTensors(summary(5), "k", new Map([["k", tensor]]))).toBe(tensor);
  });
});
