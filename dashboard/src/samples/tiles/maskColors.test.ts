import { describe, expect, it } from "vitest";
import type { Rgb } from "@/charts/colors/viridis";
import { classColour, colourClasses, keepBorders, type MaskTokens } from "./maskColors";

const TOKENS: MaskTokens = {
  series: [1, 2, 3, 4, 5, 6].map((value): Rgb => [value, value, value]),
  ignored: [9, 9, 9],
};

/** Grey levels as the pixels of a picture. */
const pixelsOf = (classes: readonly number[]) =>
  Uint8ClampedArray.from(classes.flatMap((id) => [id, id, id, 255]));
const alphaOf = (pixels: Uint8ClampedArray) => [...pixels].filter((_, index) => index % 4 === 3);

describe("colours of classes", () => {
  it("are those of the series, then hues far from each other, and grey for ignored pixels", () => {
    expect(classColour(1, TOKENS)).toEqual([1, 1, 1]);
    expect(classColour(255, TOKENS)).toEqual([9, 9, 9]);
    const many = Array.from({ length: 248 }, (_, index) => classColour(index + 7, TOKENS).join());
    expect(new Set(many).size).toBeGreaterThan(200);
  });

  it("leave the background clear", () => {
    const pixels = pixelsOf([0, 1, 255]);
    colourClasses(pixels, TOKENS);
    expect([...pixels.slice(4)]).toEqual([1, 1, 1, 255, 9, 9, 9, 255]);
    expect(alphaOf(pixels)).toEqual([0, 255, 255]);
  });

  it("keep only the pixels next to another class as borders", () => {
    const classes = [0, 0, 0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1];
    const grey = pixelsOf(classes);
    const pixels = pixelsOf(classes);
    colourClasses(pixels, TOKENS);
    keepBorders(pixels, grey, 4);
    const kept = alphaOf(pixels).map((alpha) => (alpha ? 1 : 0));
    expect(kept.slice(0, 4)).toEqual([0, 0, 0, 0]);
    expect(kept.slice(4, 8)).toEqual([0, 1, 1, 1]);
    expect(kept[10]).toBe(0);
  });
});
