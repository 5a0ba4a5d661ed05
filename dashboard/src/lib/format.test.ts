import { describe, expect, it } from "vitest";
import * as format from "./format";

describe("formats", () => {
  it.each([
    [12480, "12,480"],
    [0, "0"],
    [-3, "−3"],
    [null, "—"],
  ])("count %s → %s", (value, text) => expect(format.formatCount(value)).toBe(text));

  it.each([
    [0.1005, "0.1005"],
    [0.06, "0.0600"],
    [12.5, "12.50"],
    [-0.33, "−0.3300"],
    [0.00012, "1.20e−4"],
    [1234.5, "1,235"],
    [0, "0"],
    [Number.NaN, "NaN"],
    [Number.NEGATIVE_INFINITY, "−∞"],
    [null, "—"],
  ])("value %s → %s", (value, text) => expect(format.formatValue(value)).toBe(text));

  it("keeps apart values that differ in the digits shown", () => {
    expect(format.formatValue(0.1005)).not.toBe(format.formatValue(0.1006));
  });

  it.each([
    [1e-3, "1.0e−3"],
    [0.1, "0.1"],
    [3e-4, "3.0e−4"],
    [0, "0"],
  ])("rate %s → %s", (value, text) => expect(format.formatRate(value)).toBe(text));

  it.each([
    [0.08, ".08"],
    [-0.08, "−.08"],
    [1.24, "1.2"],
    [34.4, "34"],
    [0.996, "1.0"],
  ])("tile %s → %s", (value, text) => expect(format.formatTile(value)).toBe(text));

  it.each([
    [0.0031, 0.011, "3.1", "×10⁻³"],
    [0.011, 0.011, "11", "×10⁻³"],
    [0.00031, 0.0994, ".31", "×10⁻³"],
    [0.0078, 0.0995, ".01", ""],
    [0.0078, 0.83, ".01", ""],
    [0.000012, 0.00009, "12", "×10⁻⁶"],
    [0.000012, 0.0001, ".01", "×10⁻³"],
    [0, 0, ".00", ""],
    [Number.NaN, 0.011, "NaN", "×10⁻³"],
  ])("tile %s in a batch up to %s → %s %s", (value, largest, text, unit) => {
    const scale = format.tileScale(largest);
    expect([format.formatTile(value, scale.factor), scale.unit]).toEqual([text, unit]);
  });

  it.each([
    [0.003, "3 ms"],
    [0.9999, "1.0 s"],
    [8.2, "8.2 s"],
    [720, "12 min"],
    [12_000, "3 h 20 min"],
  ])("duration %s → %s", (value, text) => expect(format.formatDuration(value)).toBe(text));

  it("writes shares, speeds, ages and plurals as the page does", () => {
    expect(format.formatPercent(0.38)).toBe("38 %");
    expect(format.formatSpeed(212.4)).toBe("212 steps/s");
    expect(format.formatSpeed(0.42)).toBe("0.42 steps/s");
    expect(format.formatAge(14 * 60)).toBe("14 m");
    expect(format.plural(1, "hit")).toBe("1 hit");
    expect(format.plural(2, "hit")).toBe("2 hits");
  });
});

describe("formatBytes", () => {
  it("takes the unit that leaves one to four figures", () => {
    expect([0, 512, 1536, 58 * 2 ** 20, 1.4 * 2 ** 30].map(format.formatBytes)).toEqual([
      "0 B",
      "512 B",
      "1.5 KiB",
      "58 MiB",
      "1.4 GiB",
    ]);
  });
});
