import { describe, expect, it } from "vitest";
import type { HistogramOut, MediaContent, MediaGroup, PictureOut } from "@/api/types";
import { GRID_ROWS, histogramGrid, rowRange } from "./histogramGrid";
import { allSteps, indexAt, inOrder, keptText, keptTitle, namedLike, pictureText, pixelZoom } from "./media";
import { numberedTable, tableOf } from "./tableOf";

const group = (given: Partial<MediaGroup>): MediaGroup => ({
  id: "0",
  key: "samples",
  kind: "image",
  logged: 3,
  abandoned: 0,
  bytes: 10,
  numbers: [0, 1, 2],
  steps: [10, 20, 30],
  ...given,
});

const picture: PictureOut = {
  width: 28,
  height: 28,
  low: 0,
  high: 1,
  nonfinite: 0,
  every: 1,
  tiles: 1,
  of: 1,
};

const histogram = (counts: number[], low = 0, high = 1): HistogramOut => ({
  low,
  high,
  counts,
  mean: 0,
  values: 1,
  counted: 1,
  nonfinite: 0,
});

describe("the slider", () => {
  it("stands at every step at which anything was logged", () => {
    expect(allSteps([group({}), group({ steps: [15, 20] })])).toEqual([10, 15, 20, 30]);
  });

  it("shows of each name the newest item up to its step", () => {
    expect(indexAt([10, 20, 30], 25)).toBe(1);
    expect(indexAt([10, 20, 30], null)).toBe(2);
    expect(indexAt([10, 20, 30], 5)).toBeNull();
    expect(indexAt([], null)).toBeNull();
  });
});

describe("groups", () => {
  it("stand with pictures first, then by name, without those that went with a timeline", () => {
    const given = [
      group({ key: "b", kind: "histogram" }),
      group({ key: "z" }),
      group({ key: "a" }),
      group({ key: "gone", numbers: [], steps: [], abandoned: 2 }),
    ];
    expect(inOrder(given).map(({ key }) => key)).toEqual(["a", "z", "b"]);
    expect(namedLike(given, "GON").map(({ key }) => key)).toEqual(["gone"]);
  });

  it("say when they were thinned and what was left by going back", () => {
    expect(keptText(group({}))).toBe("");
    const thinned = group({ logged: 1007, abandoned: 1 });
    expect(keptText(thinned)).toBe("4 of 1,007 kept");
    expect(keptTitle(thinned)).toContain("1 item belongs to an earlier timeline and is hidden");
  });
});

describe("a picture", () => {
  it("is said with its size, its values and what is left out", () => {
    expect(pictureText({ ...picture, low: -1 })).toBe("28 × 28 px · black −1, white 1");
    expect(pictureText({ ...picture, low: 0, high: 255 })).toBe("28 × 28 px");
    expect(pictureText({ ...picture, low: null, high: null, every: 2, tiles: 64, of: 100 })).toBe(
      "28 × 28 px · 64 of 100 pictures · every 2nd pixel",
    );
  });

  it("is enlarged by whole pixels and never shrunk", () => {
    expect(pixelZoom(28, 28, { width: 372, height: 300 })).toBe(10);
    expect(pixelZoom(640, 480, { width: 372, height: 300 })).toBe(1);
  });
});

describe("histograms over steps", () => {
  it("share one axis of values, and each column sums to all its values", () => {
    const grid = histogramGrid([histogram([1, 3]), histogram([2, 2], 1, 2), histogram([], 0, 0)]);
    expect([grid?.low, grid?.high]).toEqual([0, 2]);
    const { matrix } = grid as NonNullable<typeof grid>;
    expect([matrix.rows, matrix.columns]).toEqual([GRID_ROWS, 3]);
    const column = (at: number) =>
      Array.from({ length: GRID_ROWS }, (_, row) => matrix.values[row * 3 + at] ?? 0);
    const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
    expect(sum(column(0))).toBeCloseTo(1);
    expect(sum(column(1))).toBeCloseTo(1);
    expect(sum(column(2))).toBe(0);
    expect(sum(column(0).slice(0, GRID_ROWS / 2))).toBeCloseTo(0);
    expect(sum(column(0).slice(GRID_ROWS / 2, (3 * GRID_ROWS) / 4))).toBeCloseTo(0.75);
    expect(rowRange(grid as NonNullable<typeof grid>, 0)[1]).toBe(2);
  });

  it("are none where nothing is finite", () => {
    expect(histogramGrid([histogram([])])).toBeNull();
  });
});

describe("a table", () => {
  const content: MediaContent = {
    text: null,
    columns: ["id", "p", "p", "word"],
    rows: [
      [7, "NaN", null, "NaN"],
      [9, 0.5, 1, true],
    ],
  };

  it("has numbers where a column is of numbers, also those that travel as words", () => {
    const columns = tableOf(content);
    expect(columns.map(({ name, numeric }) => [name, numeric])).toEqual([
      ["id", true],
      ["p", true],
      ["p (3)", true],
      ["word", false],
    ]);
    expect(columns[1]?.cells[0]).toBeNaN();
    expect(columns[3]?.cells).toEqual(["NaN", "true"]);
  });

  it("has the number of each row in front, under a name of its own", () => {
    expect(numberedTable(content)[0]?.name).toBe("row");
    expect(numberedTable({ ...content, columns: ["row", "a", "b", "c"] })[0]?.name).toBe("#");
  });
});
