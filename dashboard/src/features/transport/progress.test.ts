import { describe, expect, it } from "vitest";
import { progressOf, proposedTarget, targetError, thinned } from "./progress";

describe("progressOf", () => {
  it("says how far it is, and how long it takes while it runs", () => {
    expect(progressOf(12_500, 25_000, 250, true)).toEqual({
      share: 0.5,
      fact: "50 % of 25,000 steps · 50.0 s left",
      ticks: ["0", "6,250", "12,500", "18,750", "25,000"],
    });
    expect(progressOf(12_500, 25_000, 250, false).fact).toBe("50 % of 25,000 steps");
  });

  it("does without a total and never passes the end", () => {
    expect(progressOf(5, null, 10, true)).toEqual({ share: null, fact: "Total steps unknown", ticks: [] });
    expect(progressOf(30, 25, 1, true).share).toBe(1);
    expect(progressOf(1, 7, 1, false).ticks).toEqual(["0", "7"]);
  });
});

describe("run to", () => {
  it("proposes the next round step, not beyond the end", () => {
    expect([0, 99, 100, 999, 1000, 12_480].map((step) => proposedTarget(step, null))).toEqual([
      100, 100, 500, 1000, 2000, 13_000,
    ]);
    expect(proposedTarget(24_500, 24_800)).toBe(24_800);
  });

  it("says why a step cannot be run to", () => {
    expect(targetError(12_000, 12_480, null)).toBe("Already past step 12,000");
    expect(targetError(12_480, 12_480, null)).toBe("Already past step 12,480");
    expect(targetError(30_000, 12_480, 25_000)).toBe("The run ends at step 25,000");
    expect(targetError(13_000, 12_480, 25_000)).toBeNull();
  });
});

describe("thinned", () => {
  const ticks = ["0", "25,000", "50,000", "75,000", "100,000"];

  it("leaves out labels that would touch", () => {
    expect(thinned(ticks, 400)).toEqual(ticks);
    expect(thinned(ticks, 200)).toEqual(["0", "50,000", "100,000"]);
    expect(thinned(ticks, 120)).toEqual(["0", "100,000"]);
    expect(thinned(ticks, 60)).toEqual(["100,000"]);
    expect(thinned(["0", "7"], 400)).toEqual(["0", "7"]);
    expect(thinned([], 400)).toEqual([]);
  });
});
