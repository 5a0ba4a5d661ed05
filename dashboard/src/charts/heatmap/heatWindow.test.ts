import { describe, expect, it } from "vitest";
import {
  cellAt,
  cellBox,
  heatArea,
  moveCell,
  panWindow,
  showCell,
  wholeWindow,
  wideArea,
  zoomWindow,
} from "./heatWindow";

const SIZE = { rows: 64, columns: 64 };

describe("wideArea", () => {
  it("fills both sides by themselves with whole pixels a cell", () => {
    expect(wideArea(2, 64, { width: 250, height: 300 })).toEqual({ width: 192, height: 80 });
    expect(wideArea(1000, 4, { width: 250, height: 300 })).toEqual({ width: 160, height: 300 });
  });
});

describe("heatArea", () => {
  it("gives whole pixels to cells that fit and shrinks what does not", () => {
    expect(heatArea(64, 64, { width: 250, height: 300 })).toEqual({ width: 192, height: 192 });
    expect(heatArea(2048, 2048, { width: 256, height: 300 })).toEqual({ width: 256, height: 256 });
    expect(heatArea(2, 2, { width: 1000, height: 1000 }).width).toBe(80);
    expect(heatArea(10, 10, { width: -4, height: 5 })).toEqual({ width: 0, height: 0 });
  });
});

describe("window", () => {
  const whole = wholeWindow(64, 64);
  const area = { width: 256, height: 256 };

  it("finds the cell under a point and the box of a cell", () => {
    expect(cellAt(whole, area, 9, 255)).toEqual({ row: 63, column: 2 });
    expect(cellAt(whole, area, 256, 0)).toBeNull();
    expect(cellBox(whole, area, { row: 1, column: 2 })).toEqual({ left: 8, top: 4, width: 4, height: 4 });
  });

  it("zooms about the pointer, which stays on its cell", () => {
    const near = zoomWindow(whole, SIZE, 0.5, 0.25, 0.75);
    expect(near).toEqual({ row: 24, column: 8, rows: 32, columns: 32 });
    expect(cellAt(near, area, 64, 192)).toEqual(cellAt(whole, area, 64, 192));
    expect(zoomWindow(near, SIZE, 100, 0.5, 0.5)).toEqual(whole);
    expect(zoomWindow(near, SIZE, 1e-9, 0.5, 0.5).rows).toBe(4);
  });

  it("pans and shows a cell without leaving the matrix", () => {
    const near = { row: 24, column: 8, rows: 32, columns: 32 };
    expect(panWindow(near, SIZE, 100, -100)).toEqual({ ...near, row: 32, column: 0 });
    expect(showCell(near, SIZE, { row: 60, column: 8 })).toEqual({ ...near, row: 29 });
    expect(showCell(near, SIZE, { row: 30, column: 10 })).toBe(near);
  });

  it("moves the cursor with the arrows and stops at the edges", () => {
    expect(moveCell("ArrowDown", null, SIZE)).toEqual({ row: 0, column: 0 });
    expect(moveCell("ArrowLeft", { row: 3, column: 0 }, SIZE)).toEqual({ row: 3, column: 0 });
    expect(moveCell("End", { row: 3, column: 0 }, SIZE)).toEqual({ row: 3, column: 63 });
    expect(moveCell("a", { row: 3, column: 0 }, SIZE)).toBeNull();
  });
});
