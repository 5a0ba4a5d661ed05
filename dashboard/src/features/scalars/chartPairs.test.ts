import { describe, expect, it } from "vitest";
import { nameGroups } from "@/api/scalars";
import { lossMetric } from "@/lib/metricNames";
import { namesIn, pairNames, shownCharts } from "./chartPairs";

const overlaid = (names: string[]) => pairNames(names).map(namesIn);

describe("pairNames", () => {
  it.each([
    [["loss", "val_loss"], [["loss", "val_loss"]]],
    [["train_loss", "val_loss"], [["train_loss", "val_loss"]]],
    [["train/acc", "val/acc"], [["train/acc", "val/acc"]]],
    [["acc", "eval/acc"], [["acc", "eval/acc"]]],
    [["val_loss"], [["val_loss"]]],
    [
      ["loss_d", "loss_g", "value"],
      [["loss_d"], ["loss_g"], ["value"]],
    ],
  ])("%j", (names, charts) => expect(overlaid(names)).toEqual(charts));

  it("shows every scalar exactly once, however they are named", () => {
    const names = ["loss", "train_loss", "val_loss", "valid_loss", "val_val_loss", "eval_loss", "val_", "lr"];
    for (let turn = 0; turn < names.length; turn += 1) {
      const turned = [...names.slice(turn), ...names.slice(0, turn)];
      expect(overlaid(turned).flat().sort()).toEqual([...names].sort());
    }
  });
});

describe("shownCharts", () => {
  const charts = pairNames(["layer10.norm", "layer2.norm", "loss", "val_loss", "acc"]);
  const ids = (pinned: string[], filter: string) => shownCharts(charts, pinned, filter).map(({ id }) => id);

  it("puts pinned charts first as they were pinned, the others by name with numbers in order", () => {
    expect(ids([], "")).toEqual(["acc", "layer2.norm", "layer10.norm", "loss"]);
    expect(ids(["loss", "acc", "gone"], "")).toEqual(["loss", "acc", "layer2.norm", "layer10.norm"]);
  });

  it("finds a chart by any of its scalars", () => {
    expect(ids([], " VAL ")).toEqual(["loss"]);
    expect(ids([], "norm")).toEqual(["layer2.norm", "layer10.norm"]);
    expect(ids([], "nothing")).toEqual([]);
  });
});

describe("lossMetric", () => {
  it.each([
    [["grad_norm", "loss", "loss_d"], "loss"],
    [["grad_norm", "loss_d", "loss_g"], "loss_d"],
    [["acc", "Generator/Loss"], "Generator/Loss"],
    [["acc", "lr"], "acc"],
    [[], null],
  ])("of %j is %s", (names, expected) => expect(lossMetric(names)).toBe(expected));
});

describe("nameGroups", () => {
  it("requests each name once, none with a comma beside others, none longer than the server reads", () => {
    const names = Array.from(
      { length: 300 },
      (_, index) => `${index % 50 ? "" : "a,"}scalar.number.${index}`,
    );
    const groups = nameGroups(names);
    expect(groups.flat()).toEqual(names);
    for (const group of groups) {
      expect(group.join(",").length).toBeLessThanOrEqual(4_096);
      expect(group.length === 1 || group.every((name) => !name.includes(","))).toBe(true);
    }
    expect(groups.length).toBeLessThan(20);
  });
});
