import { describe, expect, it } from "vitest";
import { linearSplits } from "@/charts/ticks";
import { AXES, readSpan, spanText, X_TEXTS } from "./axisText";
import { outsideText, shortValue } from "./chartLines";
import { timeUnit } from "./curveValues";

describe("ticks of the horizontal axis", () => {
  const spans = [1e-4, 0.03, 0.7, 4, 64, 950, 12_345, 400_000, 3e7];

  it.each(AXES)("never repeat over %s, however far one zooms", (axis) => {
    for (const span of spans) {
      for (const start of [0, span / 3, span * 17]) {
        const unit = axis === "time" ? timeUnit(span) : 1;
        const splits = linearSplits(start / unit, (start + span) / unit, 5).map((split) => split * unit);
        const labels = splits.map((split) => X_TEXTS[axis](split, span)).filter(Boolean);
        expect(new Set(labels).size, `${start} ${span}: ${labels}`).toBe(labels.length);
      }
    }
  });
});

describe("a zoomed range in the address", () => {
  it.each([
    [[100, 250], "100-250"],
    [[0.125, 1.5], "0.125-1.5"],
    [null, ""],
  ] as const)("%j is written %s and read again", (range, text) => {
    expect(spanText(range)).toBe(text);
    expect(readSpan(text)).toEqual(range);
  });

  it.each(["x", "5-2", "1-", "-1-4"])("takes %s for everything", (text) => expect(readSpan(text)).toBeNull());
});

describe("shortValue", () => {
  it.each([
    [1e-3, "lr", "1.0e−3"],
    [0.02, "lr.D", "0.02"],
    [0.1, "learning_rate", "0.1"],
    [0.0019, "update_ratio", "1.9e−3"],
    [0.1, "lrate", "0.100"],
    [0, "loss", "0"],
    [Number.NaN, "loss", "NaN"],
    [null, "lr", "—"],
  ])("%d of %s is %s", (value, name, text) => expect(shortValue(value, name)).toBe(text));
});

describe("outsideText", () => {
  const none = { above: 0, below: 0, highest: -Infinity, lowest: Infinity };
  it("names the number and the most extreme value", () => {
    expect(outsideText(none, true)).toBe("");
    expect(outsideText({ ...none, above: 3, highest: 9.41 }, true)).toBe("3 above, max 9.41");
    expect(outsideText({ ...none, below: 2, lowest: -5 }, false)).toBe("2+ below, min −5.00");
    expect(outsideText({ above: 1, below: 2, highest: 9, lowest: 0 }, true)).toBe("1 above, 2 below");
  });
});
