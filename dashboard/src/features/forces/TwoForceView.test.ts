import { describe, expect, it } from "vitest";
import { isSame, spansDecades } from "./TwoForceView";

describe("isSame", () => {
  it("holds where a force is nowhere, or everywhere as large", () => {
    expect(isSame(Float64Array.of(0, 0, 0))).toBe(true);
    expect(isSame(Float64Array.of(128, 128.00001, 128))).toBe(true);
    expect(isSame(Float64Array.of())).toBe(true);
  });

  it("does not hold where one row differs, or is not a number", () => {
    expect(isSame(Float64Array.of(0, 0, 1e-9))).toBe(false);
    expect(isSame(Float64Array.of(128, Number.NaN))).toBe(false);
  });
});

describe("spansDecades", () => {
  it("looks at the positive values alone", () => {
    expect(spansDecades([0, 1, 10])).toBe(false);
    expect(spansDecades([0, 1, 100])).toBe(true);
  });
});
