import { describe, expect, it } from "vitest";
import { layOutTiles, moveInGrid, pictureTile, tileAt, tileUnder } from "./tileLayout";

describe("tiles", () => {
  it("shows 128 samples as 8 rows of 16 at 28 px", () => {
    const layout = layOutTiles(128, { width: 608, height: 368 });
    expect(layout).toMatchObject({ columns: 16, rows: 8, size: 28, pitchY: 46, totalHeight: 368 });
    expect([0, 1, 2, 15].map((index) => tileAt(layout, index).x)).toEqual([0, 39, 77, 580]);
  });

  it("grows by whole pixels where there is room and scrolls where there is none", () => {
    expect(layOutTiles(32, { width: 608, height: 368 }).size).toBeGreaterThan(40);
    expect(layOutTiles(512, { width: 608, height: 368 })).toMatchObject({ size: 28, rows: 32 });
  });

  it("cuts the picture by its geometry", () => {
    const grid = { columns: 4, tile_width: 28, tile_height: 20 };
    expect(pictureTile(grid, 6)).toEqual({ x: 56, y: 20, width: 28, height: 20 });
  });

  it("finds every tile under its own middle", () => {
    const layout = layOutTiles(100, { width: 608, height: 368 });
    for (let index = 0; index < 100; index += 1) {
      const { x, y, width, height } = tileAt(layout, index);
      expect(tileUnder(layout, 100, x + width / 2, y + height / 2)).toBe(index);
    }
    expect(tileUnder(layout, 100, 9999, 10)).toBeNull();
  });

  it("moves with the arrows and stays inside", () => {
    expect(moveInGrid("ArrowDown", 3, 16, 128)).toBe(19);
    expect(moveInGrid("ArrowDown", 120, 16, 128)).toBe(120);
    expect(moveInGrid("ArrowLeft", 0, 16, 128)).toBe(0);
    expect(moveInGrid("End", 0, 16, 128)).toBe(127);
    expect(moveInGrid("x", 0, 16, 128)).toBeNull();
  });
});
