import { describe, expect, it } from "vitest";
import { withTag } from "./LabelsPanel";
import { lanesOf } from "./timelines";

describe("lanesOf", () => {
  it("ends each timeline where the next one left it, the last where the run stands", () => {
    const lanes = lanesOf(
      [
        { timeline: 1, from_step: 40, at: 7, why: "lr 0.1" },
        { timeline: 0, from_step: null, at: null, why: null },
      ],
      55,
    );
    expect(lanes.map(({ timeline, from, to }) => [timeline, from, to])).toEqual([
      [0, 0, 40],
      [1, 40, 55],
    ]);
    expect(lanes[1]?.words).toBe("back to step 40: lr 0.1");
  });
});

describe("withTag", () => {
  it("adds each tag once, several with commas, none empty", () => {
    expect(withTag(["a"], "b, a ,,c")).toEqual(["a", "b", "c"]);
    expect(withTag(["a"], "  ")).toEqual(["a"]);
    expect(withTag([], "x".repeat(100))[0]?.length).toBe(64);
  });
});
