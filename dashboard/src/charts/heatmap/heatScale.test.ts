import { describe, expect, it } from "vitest";
import { signed } from "@/charts/colors/signed";
import { heatPixels, heatScale, presetScale } from "./heatScale";

describe("heat", () => {
  it("is symmetric about 0 when both signs occur", () => {
    const scale = heatScale([-1, 0, 3], "light");
    expect([scale.low, scale.high]).toEqual([-3, 3]);
    expect(scale.colour(0)).toEqual(signed(0, "light"));
  });

  it("runs from the lowest to the highest otherwise", () => {
    const scale = heatScale([2, 4, Number.NaN], "dark");
    expect([scale.low, scale.high]).toEqual([2, 4]);
    expect(scale.colour(2)).toEqual([68, 1, 84]);
  });

  it("marks what is not finite and survives nothing at all", () => {
    const scale = heatScale([1, 2], "light");
    expect([...heatPixels([Number.NaN], scale, [9, 8, 7])]).toEqual([9, 8, 7, 255]);
    expect(heatScale([], "light").high).toBe(1);
  });

  it("has blue below, red above and the quiet middle of each theme", () => {
    expect(signed(-1, "light")).toEqual([11, 60, 125]);
    expect(signed(1, "light")).toEqual([110, 10, 30]);
    expect(signed(0, "dark")).toEqual([25, 28, 32]);
    expect(signed(Number.NaN, "dark")).toEqual(signed(0, "dark"));
  });
});

describe("presets", () => {
  it("signed runs from −1 to 1, similarity from blue over white to red", () => {
    expect(presetScale("signed", [], "dark").colour(0)).toEqual(signed(0, "dark"));
    const { low, high, colour } = presetScale("similarity", [], "light");
    expect([low, high, colour(0), colour(0.5), colour(1)]).toEqual([
      0,
      1,
      [33, 102, 172],
      [255, 255, 255],
      [178, 39, 47],
    ]);
    expect(presetScale("range", [2, 4], "light").high).toBe(4);
  });
});
