import { describe, expect, it } from "vitest";
import { fakeBatch } from "./fakeBatch";
import { lookOf } from "./kinds";

const GRID = { columns: 1 } as never;
const LINES = { points: 1 } as never;

describe("lookOf", () => {
  it("draws each kind as it wants", () => {
    expect(lookOf(fakeBatch({ kind: "image_mask", grid: GRID }))).toBe("pictures");
    expect(lookOf(fakeBatch({ kind: "audio", lines: LINES }))).toBe("lines");
    expect(lookOf(fakeBatch({ kind: "tokens", rows: [[1]] }))).toBe("texts");
    expect(lookOf(fakeBatch({ kind: "nested" }))).toBe("table");
  });

  it("falls back to a table where what a kind needs is missing", () => {
    for (const kind of ["images", "series", "text"] as const)
      expect(lookOf(fakeBatch({ kind }))).toBe("table");
  });
});
