import { describe, expect, it } from "vitest";
import { magnitude, markColour, viridis } from "./viridis";

describe("viridis", () => {
  it("runs from purple to yellow and clamps", () => {
    expect(viridis(0)).toEqual([68, 1, 84]);
    expect(viridis(1)).toEqual([253, 231, 37]);
    expect(viridis(Number.NaN)).toEqual(viridis(-3));
  });

  it("keeps marks off the end that would vanish", () => {
    expect(markColour(0, "dark")).not.toBe(markColour(0, "light"));
    expect(markColour(1, "dark")).not.toBe(markColour(1, "light"));
  });

  it("places a loss on a log scale, and linearly where a log has no place", () => {
    expect(magnitude(0.1, 0.01, 1)).toBeCloseTo(0.5, 12);
    expect(magnitude(5, 0, 10)).toBe(0.5);
    expect(magnitude(3, 3, 3)).toBe(0.5);
  });
});
