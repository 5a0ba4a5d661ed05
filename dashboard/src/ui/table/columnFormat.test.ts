import { describe, expect, it } from "vitest";
import { cellText, columnStyle } from "./columnFormat";

const written = (cells: (number | string | null)[]) =>
  cells.map((cell) => cellText(cell, columnStyle(cells)));

describe("decimals of a column", () => {
  it("gives whole numbers none and others four figures", () => {
    expect(written([1, 20, 3000])).toEqual(["1", "20", "3,000"]);
    expect(written([0.0689, 0.1737, 0.25])).toEqual(["0.0689", "0.1737", "0.2500"]);
    expect(written([0.05547, 0.0016])).toEqual(["0.0555", "0.0016"]);
    expect(written([14.29, 13.7, 0.44])).toEqual(["14.29", "13.70", "0.44"]);
    expect(written([14.29, 13.7, 0.057])).toEqual(["14.290", "13.700", "0.057"]);
  });

  it("writes tiny and huge columns with an exponent", () => {
    expect(written([1.5e-7, 2e-7])).toEqual(["1.500e−7", "2.000e−7"]);
    expect(written([3e9, 6.482, 0, 12.5, 2e-7])).toEqual(["3.000e9", "6.482", "0", "12.50", "2.000e−7"]);
  });

  it("writes a column over many decades plainly where it can", () => {
    expect(written([2.5, 0.0123, 3e-7, 1e-6, 2e-9, 0])).toEqual([
      "2.5000",
      "0.0123",
      "3.0e−7",
      "1.0e−6",
      "2.0e−9",
      "0",
    ]);
  });

  it("keeps NaN, none and texts readable", () => {
    expect(written([Number.NaN, null, 0.5])).toEqual(["NaN", "—", "0.5000"]);
    expect(written(["dead"])).toEqual(["dead"]);
  });
});
