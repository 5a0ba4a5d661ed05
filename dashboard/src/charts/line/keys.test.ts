import { describe, expect, it } from "vitest";
import { type KeyContext, keyResult } from "./keys";
import type { Line, Pointed } from "./lines";

const line = (id: string, x: number[]): Line => ({ id, label: id, x, y: x.map(() => 1), colour: "red" });
const long = line("long", [0, 10, 20, 30, 40]);
const short = line("short", [5, 15]);
const context = (changes: Partial<KeyContext> = {}): KeyContext => ({
  lines: [short, long],
  cursor: null,
  range: [0, 40],
  bounds: null,
  byLine: false,
  ...changes,
});
const at = (id: string, index: number, x: number): Pointed => ({ id, index, x, y: 1 });
const cursorAfter = (key: string, changes: Partial<KeyContext>, shift = false) => {
  const result = keyResult(key, shift, context(changes));
  return result?.kind === "cursor" ? result.cursor : undefined;
};

describe("keys of a line chart", () => {
  it("show the cursor at the end, then walk along the longest line and stop at its ends", () => {
    expect(cursorAfter("ArrowLeft", {})).toMatchObject({ id: "long", x: 40 });
    expect(cursorAfter("ArrowLeft", { cursor: at("long", 4, 40) })).toMatchObject({ x: 30 });
    expect(cursorAfter("ArrowRight", { cursor: at("long", 4, 40) })).toMatchObject({ x: 40 });
    expect(cursorAfter("ArrowLeft", { cursor: at("long", 4, 40) }, true)).toMatchObject({ x: 0 });
    expect(cursorAfter("Home", {})).toMatchObject({ x: 0 });
    expect(cursorAfter("End", { cursor: at("long", 0, 0) })).toMatchObject({ x: 40 });
    expect(cursorAfter("PageUp", { cursor: at("long", 4, 40) })).toMatchObject({ x: 0 });
  });

  it("go from line to line where one is pointed at, to the point nearest to the cursor", () => {
    const cursor = at("short", 1, 15);
    expect(cursorAfter("ArrowDown", { cursor, byLine: true })).toMatchObject({ id: "long", x: 10 });
    expect(cursorAfter("ArrowUp", { cursor, byLine: true })).toMatchObject({ id: "long", x: 10 });
    expect(cursorAfter("ArrowLeft", { cursor, byLine: true })).toMatchObject({ id: "short", x: 5 });
    expect(cursorAfter("ArrowDown", { cursor })).toBeUndefined();
  });

  it("zoom about the cursor, move by half a page and show everything", () => {
    const zoomable = context({ range: [0, 300], bounds: [0, 1_000], cursor: at("long", 0, 0) });
    expect(keyResult("+", false, zoomable)).toEqual({ kind: "range", range: [0, 200] });
    expect(keyResult("-", false, zoomable)).toEqual({ kind: "range", range: [0, 450] });
    expect(keyResult("PageDown", false, zoomable)).toEqual({ kind: "range", range: [150, 450] });
    expect(keyResult("0", false, zoomable)).toEqual({ kind: "range", range: null });
    expect(keyResult("0", false, context())).toBeNull();
  });

  it("leave Escape to the page where there is no cursor to clear", () => {
    expect(keyResult("Escape", false, context({ cursor: at("long", 0, 0) }))).toEqual({
      kind: "cursor",
      cursor: null,
    });
    expect(keyResult("Escape", false, context())).toBeNull();
    expect(keyResult("ArrowLeft", false, context({ lines: [] }))).toBeNull();
  });
});
