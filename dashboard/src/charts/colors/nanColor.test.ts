import { expect, it } from "vitest";
import { rgbOf } from "./nanColor";

it("reads the three channels of a token, with or without space around it", () => {
  expect(rgbOf("#e800c4")).toEqual([232, 0, 196]);
  expect(rgbOf(" #ff3be0")).toEqual([255, 59, 224]);
});
