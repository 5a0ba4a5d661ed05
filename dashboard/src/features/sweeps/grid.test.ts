import { describe, expect, it } from "vitest";
import type { SweepAxis, SweepCell, SweepEffect } from "@/api/types";
import { decimalsFor, layGrid, neighbour, rowMean, secondsLeft, valueRange, verdictsOf } from "./grid";

const axis = (label: string, values: string[], is_seed = false): SweepAxis => ({
  key: label,
  label,
  values,
  is_seed,
});
const AXES = [axis("seed", ["0", "1"], true), axis("latent", ["none", "vq"]), axis("beta", ["0", "1"])];

function cellAt(job: number, choices: Record<string, string>, more: Partial<SweepCell> = {}): SweepCell {
  return {
    job,
    choices,
    state: "finished",
    run_state: "finished",
    change: null,
    open: false,
    share: 1,
    step: 10,
    epoch: 1,
    value: job,
    values: {},
    error: null,
    address: "00",
    run_id: null,
    name: `job${job}`,
    ...more,
  };
}

const CELLS = AXES[0]?.values.flatMap((seed, s) =>
  ["none", "vq"].flatMap((latent, l) =>
    ["0", "1"].map((beta, b) => cellAt(4 * s + 2 * l + b, { seed, latent, beta })),
  ),
) as SweepCell[];

describe("the grid of a sweep", () => {
  it("has the first axis that is no seed as rows, and seeds as the innermost columns", () => {
    const { rowAxis, columns, rows } = layGrid(AXES, CELLS, "");
    expect(rowAxis.label).toBe("latent");
    expect(columns.map(({ levels }) => levels.join())).toEqual(["0,0", "0,1", "1,0", "1,1"]);
    expect(columns.map(({ opens }) => opens)).toEqual([false, false, true, false]);
    expect(rows[1]?.cells.map((cell) => cell?.job)).toEqual([2, 6, 3, 7]);
  });

  it("says how long the open cells take, by the finished ones and so many at a time", () => {
    const running = { state: "running", share: 0.5 } as const;
    const cells = [
      cellAt(0, {}),
      cellAt(1, {}, running),
      cellAt(2, {}, running),
      ...[3, 4, 5].map((job) => cellAt(job, {}, { state: "missing", share: null, open: true })),
    ];
    expect(secondsLeft(cells, () => 60)).toBe(120);
    // The last cell takes its own time, however many there are.
    expect(secondsLeft(cells.slice(0, 4), () => 60)).toBe(60);
    expect(secondsLeft(cells, () => null)).toBeNull();
    expect(secondsLeft(cells.slice(1), () => 60)).toBeNull();
    expect(secondsLeft(cells.slice(0, 1), () => 60)).toBeNull();
  });

  it("leaves a hole where the plan has no cell, and arrows step over it", () => {
    const grid = layGrid(
      AXES,
      CELLS.filter(({ job }) => job !== 4),
      "",
    );
    expect(grid.rows[0]?.cells[1]).toBeNull();
    expect(neighbour(grid, 0, "ArrowRight")?.job).toBe(1);
    expect(neighbour(grid, 0, "ArrowDown")?.job).toBe(2);
    expect(neighbour(grid, 0, "ArrowLeft")).toBeNull();
    expect(neighbour(grid, 0, "Enter")).toBeNull();
  });

  it("counts finished cells alone, and none with other code", () => {
    const cells = CELLS.map((cell) =>
      cell.job === 7
        ? { ...cell, state: "running" as const }
        : cell.job === 0
          ? { ...cell, open: true }
          : cell,
    );
    expect(valueRange(cells)).toEqual([1, 6]);
    const grid = layGrid(AXES, cells, "");
    expect(rowMean(grid.rows[0] as never)).toMatchObject({ mean: 10 / 3, count: 3 });
    expect(valueRange([])).toBeNull();
  });

  it("writes values with decimals that tell them apart", () => {
    expect([decimalsFor([0.04, 0.07]), decimalsFor([1.2, 9]), decimalsFor([100, 900])]).toEqual([4, 3, 1]);
  });
});

describe("verdicts", () => {
  const effect = (more: Partial<SweepEffect>): SweepEffect => ({
    axis: "latent",
    level: "vq",
    against: "none",
    held: { beta: "0" },
    pairs: [],
    mean: -0.012,
    low: -0.016,
    high: -0.008,
    seeds: 3,
    enough: false,
    better: null,
    ...more,
  });
  const grid = layGrid(AXES, CELLS, "");

  it("give a difference with an interval, and no rank below five seeds", () => {
    const [verdict] = verdictsOf(grid, [effect({}), effect({ held: { beta: "1" } })], null, true, 3);
    expect(verdict).toEqual({
      text: "vq better than none by 0.012 ± 0.004 over 3 seeds",
      note: "too few to rank",
      held: "at beta 0, paired by seed",
    });
  });

  it("say that levels do not differ where the interval contains 0", () => {
    const [verdict] = verdictsOf(grid, [effect({ seeds: 5, enough: true })], null, true, 3);
    expect(verdict?.note).toBe("interval contains 0");
    expect(verdict?.text).toMatch(/^vq and none do not differ/);
  });

  it("turn round where more is better", () => {
    const sure = effect({ seeds: 5, enough: true, better: "none" });
    expect(verdictsOf(grid, [sure], CELLS[2] as SweepCell, false, 3)[0]?.text).toMatch(
      /^none better than vq/,
    );
  });
});
