import { describe, expect, it } from "vitest";
import { rangeView, readView, viewRange, viewText } from "./chartRange";

describe("view", () => {
  it("shows the last 600 steps with room for the future", () => {
    expect(viewRange({ kind: "recent" }, 0, 12_480)).toEqual([11_880, 12_504]);
    expect(viewRange({ kind: "all" }, 0, 100)).toEqual([0, 104]);
    expect(viewRange({ kind: "recent" }, 0, 3)[1]).toBeCloseTo(20.8, 9);
  });

  it("reaches to what the run left when it went back, and no further than half as much again", () => {
    expect(viewRange({ kind: "all" }, 0, 100, 150)).toEqual([0, 156]);
    expect(viewRange({ kind: "recent" }, 0, 1000, 1100)).toEqual([400, 1128]);
    expect(viewRange({ kind: "recent" }, 0, 1000, 9000)).toEqual([400, 1336]);
  });

  it("keeps a zoomed range while the run goes on", () => {
    const view = rangeView([100, 200]);
    expect(viewRange(view, 0, 1000)).toEqual(viewRange(view, 0, 5000));
  });

  it("is everything where no range is left", () => {
    expect(rangeView(null)).toEqual({ kind: "all" });
  });

  it.each(["all", "100-200", null])("comes back from the address as it went in: %s", (text) => {
    expect(viewText(readView(text))).toBe(text);
  });

  it("takes nonsense in the address for the default", () => {
    expect(readView("9-3")).toEqual({ kind: "recent" });
    expect(readView("x")).toEqual({ kind: "recent" });
  });
});
