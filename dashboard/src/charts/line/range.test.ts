import { describe, expect, it } from "vitest";
import { clampRange, panRange, zoomRange } from "./range";

describe("a range of steps", () => {
  it("zooms about a step, and shows everything once it would show more", () => {
    expect(zoomRange([0, 1000], 500, 0.5, [0, 1000])).toEqual([250, 750]);
    expect(zoomRange([200, 400], 200, 0.5, [0, 1000])).toEqual([200, 300]);
    expect(zoomRange([0, 1000], 500, 2, [0, 1000])).toBeNull();
  });

  it("stays within the series and never gets too narrow", () => {
    expect(clampRange([-50, 50], [0, 1040])).toEqual([0, 100]);
    expect(panRange([900, 1000], 0.5, [0, 1040])).toEqual([940, 1040]);
    expect(clampRange([500, 501], [0, 1040])).toEqual([491, 511]);
    expect(clampRange([3, 4], [0, 8])).toEqual([0, 8]);
  });

  it("is not of whole numbers where less than one is wide enough", () => {
    expect(clampRange([0.25, 0.75], [0, 3], 0.1)).toEqual([0.25, 0.75]);
    expect(clampRange([0.5, 0.5], [0, 3], 0.5)).toEqual([0.25, 0.75]);
    expect(zoomRange([0, 3], 1.5, 0.5, [0, 3], 0.1)).toEqual([0.75, 2.25]);
  });
});
