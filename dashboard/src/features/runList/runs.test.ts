import { describe, expect, it } from "vitest";
import type { RunRow } from "@/api/types";
import { columnsOf, columnTitles, differing } from "./columns";
import { configDiff } from "./configDiff";
import { filterRuns, fulfils, readCondition, readFilter, writeCondition } from "./filter";
import { groupRuns, itemsOf, readSort, sortRuns, spreadOf, withForks, writeSort } from "./grouping";
import { describe as describeColumns, fitting, leastWidth } from "./tableColumns";
import { cellOf, durationOf, progressOf, settingText, titleOf } from "./values";

function row(id: string, values: Partial<RunRow> = {}): RunRow {
  return {
    id,
    name: id,
    directory: `run_${id}`,
    state: "finished",
    live: false,
    step: 10,
    total_steps: 20,
    started_at: 100,
    attempt: 1,
    timeline: 0,
    scalars: ["loss"],
    ended_at: 160,
    updated_at: 160,
    epoch: 1,
    reachable: false,
    why: null,
    recipe: "bcl",
    host: "here",
    seed: 1,
    tags: [],
    note: "",
    config: {},
    summary: {},
    parent: null,
    bytes: 2048,
    ...values,
  };
}

const ids = (runs: readonly { id: string }[]) => runs.map(({ id }) => id);

describe("values", () => {
  it("reads settings, metrics and what every run has by one name each", () => {
    const run = row("a", { config: { "trainer.lr": 0.001 }, summary: { loss: "NaN" } });
    expect(cellOf(run, "config.trainer.lr")).toBe(0.001);
    expect(cellOf(run, "trainer.lr")).toBe(0.001);
    expect(cellOf(run, "summary.loss")).toBeNaN();
    expect(cellOf(run, "progress")).toBe(0.5);
    expect(cellOf(run, "nothing")).toBeNull();
  });

  it("writes settings so that two different ones never look alike", () => {
    expect(settingText(0.001)).toBe("1e−3");
    expect(settingText(0.0010001)).toBe("1.0001e−3");
    expect(settingText(128)).toBe("128");
    expect(settingText(0.25)).toBe("0.25");
    expect(settingText(true)).toBe("true");
    expect(settingText(null)).toBe("—");
  });

  it("names columns in short words", () => {
    expect(titleOf("summary.val_loss")).toBe("Val loss");
    expect(titleOf("summary.steps_per_s")).toBe("Steps/s");
    expect(titleOf("config.phase1.trainer.lr")).toBe("lr");
    for (const [name, title] of [
      ["constructor", "Constructor"],
      ["toString", "ToString"],
      ["__proto__", "  proto  "],
    ])
      expect(titleOf(`summary.${name}`)).toBe(title);
    expect([...columnTitles(["config.a.lr", "config.b.lr", "config.k"]).values()]).toEqual([
      "a.lr",
      "b.lr",
      "k",
    ]);
  });

  it("knows no share of an unknown end, and no time without a start", () => {
    expect(progressOf({ step: 5, total_steps: null })).toBeNull();
    expect(progressOf({ step: 50, total_steps: 20 })).toBe(1);
    expect(durationOf(row("a"))).toBe(60);
    expect(durationOf(row("a", { started_at: null }))).toBeNull();
  });
});

describe("filter", () => {
  it("reads conditions and leaves words", () => {
    expect(readCondition("lr<=0.001")).toEqual({ key: "lr", operator: "<=", value: "0.001" });
    expect(readCondition("novelty")).toBeNull();
    const { conditions, words } = readFilter("bcl state=running k>4 novel");
    expect(conditions.map(writeCondition)).toEqual(["state=running", "k>4"]);
    expect(words).toBe("bcl novel");
  });

  it("compares numbers as numbers and texts without case", () => {
    const run = row("a", { config: { lr: 0.001, variant: "Novelty", gate: true } });
    const test = (text: string) => fulfils(run, readCondition(text) as never);
    expect(test("lr=1e-3")).toBe(true);
    expect(test("lr<0.001")).toBe(false);
    expect(test("lr<=0.001")).toBe(true);
    expect(test("variant=novelty")).toBe(true);
    expect(test("variant!=novelty")).toBe(false);
    expect(test("gate=true")).toBe(true);
    expect(test("missing=1")).toBe(false);
    expect(test("missing!=1")).toBe(true);
    expect(test("missing=none")).toBe(true);
  });

  it("takes any of several states or tags", () => {
    const run = row("a", { state: "killed", tags: ["baseline", "Paper"] });
    const test = (text: string) => fulfils(run, readCondition(text) as never);
    expect(test("state=failed,killed")).toBe(true);
    expect(test("state!=killed")).toBe(false);
    expect(test("tag=paper")).toBe(true);
    expect(test("tag=other")).toBe(false);
  });

  it("finds words in names, states, tags, notes and settings", () => {
    const runs = [
      row("control", { note: "first try" }),
      row("novel", { tags: ["paper"], config: { variant: "novelty" } }),
    ];
    expect(ids(filterRuns(runs, [], "first"))).toEqual(["control"]);
    expect(ids(filterRuns(runs, [], "paper variant=novelty"))).toEqual(["novel"]);
    expect(ids(filterRuns(runs, [], "FINISHED"))).toEqual(["control", "novel"]);
    expect(filterRuns(runs, [], "finished nowhere")).toEqual([]);
  });
});

describe("order", () => {
  const runs = [
    row("a", { config: { k: 8 }, summary: { loss: 0.3 }, started_at: 1 }),
    row("b", { config: { k: 10 }, summary: {}, started_at: 2 }),
    row("c", { config: {}, summary: { loss: 0.1 }, started_at: 3, parent: "a" }),
  ];

  it("puts what is not known last, whichever way it is turned", () => {
    expect(ids(sortRuns(runs, readSort("summary.loss")))).toEqual(["c", "a", "b"]);
    expect(ids(sortRuns(runs, readSort("-summary.loss")))).toEqual(["a", "c", "b"]);
    expect(writeSort(readSort("-started_at"))).toBe("-started_at");
  });

  it("puts forks under their parents", () => {
    const placed = withForks(sortRuns(runs, readSort("-started_at")));
    expect(placed.map(({ run, depth }) => `${run.id}${depth}`)).toEqual(["b0", "a0", "c1"]);
  });

  it("never hides a run, not even in a ring of parents", () => {
    const ring = [row("a", { parent: "b" }), row("b", { parent: "a" }), row("c", { parent: "c" })];
    expect(ids(withForks(ring).map(({ run }) => run)).sort()).toEqual(["a", "b", "c"]);
  });

  it("groups by a setting, numbers by size, none last", () => {
    expect(groupRuns(runs, "config.k").map(({ label, runs: own }) => [label, own.length])).toEqual([
      ["8", 1],
      ["10", 1],
      ["—", 1],
    ]);
    const items = itemsOf(runs, readSort("name"), "config.k", new Set(["8"]));
    expect(items.map((item) => (item.kind === "group" ? `#${item.label}` : item.id))).toEqual([
      "#8",
      "#10",
      "b",
      "#—",
      "c",
    ]);
  });

  it("gives mean and spread over runs, and says when the seeds are too few", () => {
    const seeded = [1, 2, 3].map((seed) => row(`s${seed}`, { seed, summary: { loss: seed } }));
    const spread = spreadOf(seeded, "summary.loss");
    expect(spread).toMatchObject({ mean: 2, count: 3, enough: true });
    expect(spread?.deviation).toBeCloseTo(1, 12);
    expect(spreadOf(seeded.slice(0, 2), "summary.loss")?.enough).toBe(false);
    const same = seeded.map((run) => ({ ...run, seed: 1 }));
    expect(spreadOf(same, "summary.loss")?.enough).toBe(false);
    expect(spreadOf([row("a")], "summary.loss")).toBeNull();
  });
});

describe("columns", () => {
  const runs = [
    row("a", { config: { lr: 0.1, loop: "bcl", k: 8 }, summary: { loss: 1, steps_per_s: 9, extra: 2 } }),
    row("b", { config: { lr: 0.2, loop: "bcl", k: 8 }, summary: { loss: 1 } }),
  ];

  it("begin with the settings that differ and the main measure", () => {
    expect(differing(runs, ["loop", "lr", "k"])).toEqual(["lr"]);
    const { shown, config } = columnsOf(runs, { config: [], summary: [] }, null);
    expect(shown).toEqual(["config.lr", "progress", "summary.loss", "summary.extra", "summary.steps_per_s"]);
    expect(config).toEqual(["config.lr", "config.loop", "config.k"]);
  });

  it("are not hijacked by one odd run", () => {
    const usual = [1, 2, 3, 4].map((seed) =>
      row(`usual ${seed}`, {
        config: { run_name: `run ${seed}`, lr: seed < 3 ? 0.1 : 0.2, betas: "[0.9]", k: 8, seed: 0 },
        summary: { loss: 1, steps_per_s: 9 },
      }),
    );
    const odd = row("odd", {
      config: { run_name: "odd", lr: 0.1, project: "p", allow: "[]", k: 9, betas: "[0.5]", seed: 0 },
      summary: { best_val_loss: 1, val_loss: 1, steps_per_s: 1 },
    });
    const { shown } = columnsOf([odd, ...usual], { config: [], summary: [] }, null);
    expect(shown).toEqual(["config.lr", "progress", "summary.loss", "summary.steps_per_s"]);
  });

  it("leave out settings for which there is no room, never the metrics", () => {
    const long = row("a", {
      config: { model: "Sequential", optimizers: '["AdamW"]', k: 8 },
      summary: { loss: 1 },
    });
    const rows = new Map([["a", long]]);
    const keys = [
      "config.model",
      "config.optimizers",
      "config.k",
      "progress",
      "summary.loss",
      "summary.steps_per_s",
    ];
    const shown = fitting(rows, keys);
    expect(shown).toEqual(keys.filter((key) => key !== "config.k"));
    expect(leastWidth(describeColumns(rows, shown))).toBeLessThanOrEqual(744);
    expect(fitting(rows, ["config.k", "progress"])).toEqual(["config.k", "progress"]);
  });

  it("are those that were chosen", () => {
    expect(columnsOf(runs, { config: [], summary: [] }, ["config.k"]).shown).toEqual(["config.k"]);
  });
});

describe("configDiff", () => {
  it("lists what differs from the first run, also what only some have", () => {
    const { lines, equal } = configDiff([
      { config: { a: 1, b: "x", c: true } },
      { config: { a: 1, b: "y" } },
      { config: { a: 1, b: "x", c: true } },
    ]);
    expect(equal).toBe(1);
    expect(lines).toEqual([
      { key: "b", values: ["x", "y", "x"], differs: [false, true, false] },
      { key: "c", values: [true, undefined, true], differs: [false, true, false] },
    ]);
  });
});
