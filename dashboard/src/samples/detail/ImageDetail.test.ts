import { describe, expect, it } from "vitest";
import { shownSize } from "./ImageDetail";

describe("shownSize", () => {
  it("enlarges small images by a whole factor, both sides alike", () => {
    expect(shownSize(64, 48)).toEqual({ width: 320, height: 240 });
    expect(shownSize(28, 28)).toEqual({ width: 308, height: 308 });
    expect(shownSize(8, 6)).toEqual({ width: 320, height: 240 });
  });

  it("leaves larger ones as they are, as far as there is room", () => {
    expect(shownSize(400, 300)).toEqual({ width: 400, height: 300 });
    expect(shownSize(1_440, 480)).toEqual({ width: 720, height: 240 });
    expect(shownSize(480, 960)).toEqual({ width: 240, height: 480 });
  });
});
