import { describe, expect, it } from "vitest";
import { csvOf, jsonOf } from "./csv";

describe("csvOf", () => {
  it("writes a head and full precision", () => {
    const columns = [
      { name: "step", cells: [1, 2] },
      { name: "loss", cells: Float64Array.of(0.1, Number.NaN) },
    ];
    expect(csvOf(columns)).toBe("step,loss\r\n1,0.1\r\n2,NaN\r\n");
  });

  it("quotes what needs it and disarms formulas, but not numbers", () => {
    expect(csvOf([{ name: "a,b", cells: ['say "x"', "=1+1", -3, null] }])).toBe(
      '"a,b"\r\n"say ""x"""\r\n\'=1+1\r\n-3\r\n\r\n',
    );
  });

  it("writes strict JSON", () => {
    expect(JSON.parse(jsonOf({ a: Number.NaN, b: [Number.NEGATIVE_INFINITY] }))).toEqual({
      a: "NaN",
      b: ["-Infinity"],
    });
  });
});
