import { describe, expect, it } from "vitest";
import { thinningText } from "./captures";

describe("thinningText", () => {
  it("says which steps and how many samples are shown", () => {
    expect(thinningText({ every: 14, shown: 64, of: 256 })).toBe("every 14th step, 64 of 256 samples");
    expect(thinningText({ every: 2, shown: null, of: null })).toBe("every 2nd step");
    expect(thinningText({ every: 1_003, shown: 64, of: 64 })).toBe("every 1,003rd step");
    expect(thinningText({ every: 1, shown: 64, of: 256 })).toBe("64 of 256 samples");
    expect(thinningText({ every: 1, shown: null, of: null })).toBe("");
  });
});
