import { describe, expect, it } from "vitest";
import type { SourceTracks } from "@/live/trajectories";
import { rangeOf } from "./FeatureTrajectory";
import { cosineNow, metricsOf, pairLines, pairName, readIds, rowLines, tableOf } from "./tracks";

const track = (columns: Record<string, number[]>) => ({
  step: Float64Array.of(1, 2),
  columns: new Map(Object.entries(columns).map(([name, cells]) => [name, Float64Array.from(cells)])),
});

const TRACKS: SourceTracks = {
  source: "w",
  watched: [3, 9],
  rows: new Map([
    [3, track({ weight_cos_to_init: [1, 0.9], zeta: [5, 6], win_rate: [0.1, Number.NaN] })],
    [9, track({ weight_cos_to_init: [1, 0.8] })],
    [4, track({ weight_cos_to_init: [1, 0.7] })],
  ]),
  pairs: new Map([
    ["3,9", track({ cos: [0.5, 0.6] })],
    ["3,4", track({ cos: [0.1, 0.2] })],
  ]),
};
const COLOURS = { of: (id: number) => `c${id}`, removed: "grey", faint: "faint" };

describe("lines of the watched", () => {
  it("keep one that is no longer watched, dashed and grey", () => {
    const lines = rowLines(TRACKS, "weight_cos_to_init", COLOURS);
    expect(lines.map(({ id, colour, dashed }) => [id, colour, dashed])).toEqual([
      ["3", "c3", false],
      ["9", "c9", false],
      ["4", "grey", true],
    ]);
    expect(lines[2]?.label).toBe("4, no longer watched");
  });

  it("have no points where a metric was never told", () => {
    expect(rowLines(TRACKS, "win_rate", COLOURS)[1]?.value).toHaveLength(0);
  });

  it("put the chosen pair in front of the others", () => {
    expect(pairLines(TRACKS, "3,9", COLOURS).map(({ faint, dashed }) => [faint, dashed])).toEqual([
      [false, false],
      [true, true],
    ]);
  });

  it("name the metrics that the run lists first", () => {
    expect(metricsOf(TRACKS, ["win_rate", "absent", "weight_cos_to_init"])).toEqual([
      "win_rate",
      "weight_cos_to_init",
      "zeta",
    ]);
  });
});

describe("pairs", () => {
  it("are found in either order", () => {
    expect(pairName(9, 3)).toBe("3,9");
    expect(cosineNow(TRACKS, 9, 3)).toBe(0.6);
    expect(cosineNow(TRACKS, 9, 4)).toBeNull();
  });
});

describe("files and fields", () => {
  it("have one line a point, rows then pairs, gaps empty", () => {
    const table = tableOf(TRACKS, ["win_rate", "weight_cos_to_init"]);
    expect(table.map(({ name }) => name)).toEqual([
      "feature",
      "step",
      "win_rate",
      "weight_cos_to_init",
      "zeta",
      "cos",
    ]);
    expect(table[0]?.cells).toHaveLength(10);
    expect(table[2]?.cells.slice(0, 2)).toEqual([0.1, null]);
    expect(table[0]?.cells.at(-1)).toBe("3 × 4");
    expect(table[5]?.cells.at(-1)).toBe(0.2);
  });

  it("read ids as one types them", () => {
    expect(readIds("0, 15 31;47")).toEqual([0, 15, 31, 47]);
    expect(readIds("3, x")).toBeNull();
    expect(readIds(" ")).toBeNull();
  });

  it("keep the range of steps inside what there is", () => {
    expect(rangeOf("5-20", [0, 10])).toEqual([5, 10]);
    expect(rangeOf("20-30", [0, 10])).toEqual([0, 10]);
    expect(rangeOf("", [0, 10])).toEqual([0, 10]);
    expect(rangeOf("1-2", null)).toBeNull();
  });
});
