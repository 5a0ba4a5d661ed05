import { describe, expect, it } from "vitest";
import { sameDecimals } from "./ticks";

describe("sameDecimals", () => {
  it("gives every tick the decimals that their distance needs", () => {
    expect(sameDecimals([0.06, 0.07, 0.08])).toEqual(["0.06", "0.07", "0.08"]);
    expect(sameDecimals([0, 0.5, 1])).toEqual(["0.0", "0.5", "1.0"]);
    expect(sameDecimals([11_900, 12_000])).toEqual(["11,900", "12,000"]);
    expect(sameDecimals([0.0075, 0.01, 0.0125])).toEqual(["0.0075", "0.0100", "0.0125"]);
    expect(sameDecimals([-1, 0, 1])).toEqual(["−1", "0", "1"]);
  });

  it("writes very small and very large ones with an exponent", () => {
    expect(sameDecimals([1e-4, 2e-4])).toEqual(["1e−4", "2e−4"]);
    expect(sameDecimals([0, 1e7])).toEqual(["0", "1e7"]);
  });

  it("leaves out what the axis leaves out", () => {
    expect(sameDecimals([0.1, null, 1])).toEqual(["0.1", "", "1.0"]);
    expect(sameDecimals([])).toEqual([]);
  });
});
