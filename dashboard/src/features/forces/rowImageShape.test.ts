import { describe, expect, it } from "vitest";
import { barsOf, pictureOf, pixelsPer, squareOf } from "./rowImageShape";
import { spansDecades } from "./TwoForceView";

describe("pictureOf", () => {
  it("believes the hint where it fits, then the row's own shape", () => {
    expect(pictureOf([784], [28, 28])).toEqual({ height: 28, width: 28 });
    expect(pictureOf([784], [10, 10])).toBeNull();
    expect(pictureOf([784], null)).toBeNull();
    expect(pictureOf([3, 5, 5], null)).toEqual({ height: 15, width: 5 });
    expect(pictureOf([64, 1], null)).toBeNull();
  });

  it("offers a square only where there is one", () => {
    expect(squareOf(784)).toEqual({ height: 28, width: 28 });
    expect(squareOf(64)).toEqual({ height: 8, width: 8 });
    expect(squareOf(60)).toBeNull();
    expect(squareOf(4)).toBeNull();
  });

  it("uses whole pixels where they fit", () => {
    expect(pixelsPer({ height: 28, width: 28 }, 112)).toBe(4);
    expect(pixelsPer({ height: 28, width: 28 }, 120)).toBe(4);
    expect(pixelsPer({ height: 200, width: 100 }, 100)).toBe(0.5);
  });
});

describe("barsOf", () => {
  it("keeps lowest and highest where values share a pixel", () => {
    expect(barsOf([1, -2, 3, 4], 2)).toEqual([
      { low: -2, high: 1 },
      { low: 0, high: 4 },
    ]);
    expect(barsOf([1, 2], 10)).toHaveLength(2);
  });
});

describe("spansDecades", () => {
  it("asks for a log axis only where positive values lie far apart", () => {
    expect(spansDecades([1e-3, 1, 0])).toBe(true);
    expect(spansDecades([1, 2, -5])).toBe(false);
    expect(spansDecades([0, 0])).toBe(false);
  });
});
