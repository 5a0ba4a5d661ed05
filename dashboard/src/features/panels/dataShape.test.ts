import { describe, expect, it } from "vitest";
import { looksLikeTable, readCell, shapeOf } from "./dataShape";

describe("shapeOf", () => {
  it("makes a table of equally long vectors and keeps what does not fit", () => {
    const shaped = shapeOf({ win_rate: [0.1, "NaN", 0.3], status: ["a", "b", "c"], total: 3, odd: [1, 2] });
    if (shaped.kind !== "table") throw new Error(shaped.kind);
    expect(shaped.rows).toBe(3);
    expect(shaped.columns.map(({ name, numeric }) => [name, numeric])).toEqual([
      ["win_rate", true],
      ["status", false],
    ]);
    expect(shaped.columns[0]?.cells).toEqual([0.1, Number.NaN, 0.3]);
    expect(shaped.rest.map(([name, { kind }]) => [name, kind])).toEqual([
      ["total", "scalar"],
      ["odd", "table"],
    ]);
  });

  it("makes a matrix of numbers, with NaN kept", () => {
    const shaped = shapeOf([
      [1, 2],
      ["NaN", 4],
    ]);
    expect(shaped).toEqual({
      kind: "matrix",
      rows: 2,
      columns: 2,
      values: Float64Array.from([1, 2, Number.NaN, 4]),
    });
  });

  it("lists scalars, tabulates records and groups the rest", () => {
    expect(shapeOf({ loss: 0.1, note: "x" })).toEqual({
      kind: "entries",
      entries: [
        ["loss", 0.1],
        ["note", "x"],
      ],
    });
    expect(shapeOf([{ a: 1 }, { a: 2, b: "x" }])).toMatchObject({ kind: "table", rows: 2 });
    expect(shapeOf({ a: { b: 1 }, c: [[1]] })).toMatchObject({ kind: "group" });
    expect(shapeOf([[1], [1, 2]])).toMatchObject({ kind: "group" });
  });

  it("knows a summary when it sees one", () => {
    const summary = { summary: true, shape: [300, 300], dtype: "float32", elements: 90000, finite: 90000 };
    expect(shapeOf(summary)).toEqual({ kind: "summary", summary });
  });

  it("shows odd values as what they are", () => {
    expect(shapeOf("hello")).toEqual({ kind: "scalar", value: "hello" });
    expect(shapeOf(null)).toEqual({ kind: "scalar", value: null });
    expect(shapeOf([])).toEqual({ kind: "text", text: "[]" });
    expect(shapeOf({})).toEqual({ kind: "text", text: "{}" });
    expect(readCell("-Infinity")).toBe(Number.NEGATIVE_INFINITY);
  });

  it("prefers tables on the Step tab", () => {
    expect(looksLikeTable({ a: [1, 2] })).toBe(true);
    expect(looksLikeTable([[1, 2]])).toBe(false);
    expect(looksLikeTable({ a: 1 })).toBe(false);
  });
});
