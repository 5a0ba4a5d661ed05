import { describe, expect, it } from "vitest";
import type { RecipeSetting } from "@/api/types";
import { fitsSegments, groupSettings, preview, rangeText, readSetting, readSettings } from "./settings";

function setting(values: Partial<RecipeSetting>): RecipeSetting {
  const plain = { minimum: null, maximum: null, choices: [], about: "", group: "", is_optional: false };
  return { name: "steps", kind: "int", default: 100, ...plain, ...values };
}

describe("settings of a recipe", () => {
  const recipe = {
    settings: [
      setting({ name: "steps", minimum: 1 }),
      setting({ name: "lr", kind: "float", default: 0.001, minimum: 0, maximum: 1 }),
      setting({ name: "variant", kind: "choice", default: "novelty", choices: ["novelty", "rescue"] }),
      setting({ name: "shuffle", kind: "bool", default: true }),
      setting({ name: "title", kind: "text", default: "" }),
    ],
  };

  it("are sent only where they differ from their defaults", () => {
    const typed = { steps: "100", lr: "5e-4", variant: "rescue", shuffle: false, title: "a" };
    expect(readSettings(recipe, typed)).toEqual({
      settings: { lr: 5e-4, variant: "rescue", shuffle: false, title: "a" },
      problems: {},
    });
    expect(readSettings(recipe, {})).toEqual({ settings: {}, problems: {} });
    expect(readSettings(recipe, { steps: "" })).toEqual({ settings: {}, problems: {} });
  });

  it("are refused one by one, with what was expected", () => {
    const { problems } = readSettings(recipe, { steps: "0", lr: "much", variant: "other" });
    expect(problems).toEqual({
      steps: "Must be at least 1",
      lr: "Enter a number",
      variant: "One of novelty, rescue",
    });
    expect(readSetting(setting({}), "1.5")).toEqual({ problem: "Enter a whole number" });
    expect(readSetting(setting({}), "12,480")).toEqual({ value: 12480 });
  });

  it("tell their range in words", () => {
    expect(rangeText(setting({ minimum: 1, maximum: 5000 }))).toBe("1 to 5,000");
    expect(rangeText(setting({ kind: "float", maximum: 0.5 }))).toBe("at most 0.5");
    expect(rangeText(setting({}))).toBe("");
  });

  it("are shown whole before the run starts", () => {
    expect(preview(recipe, { lr: 0.1 })[1]).toEqual({ name: "lr", value: "0.1", changed: true });
    expect(preview(recipe, { lr: 0.1 })[0]).toEqual({ name: "steps", value: "100", changed: false });
  });

  it("of a config tree come in groups, each with its option", () => {
    const encoder = { group: "phase1/encoder" };
    const groups = groupSettings([
      setting({ name: "loop.dropout", group: "loop" }),
      setting({
        ...encoder,
        name: "phase1/encoder",
        kind: "choice",
        default: "mlp",
        choices: ["mlp", "gnn"],
      }),
      setting({ ...encoder, name: "phase1.encoder.hidden_dims", kind: "ints", default: [128, 128] }),
    ]);
    expect(groups.map(({ name, choice }) => [name, choice?.default ?? null])).toEqual([
      ["loop", null],
      ["phase1/encoder", "mlp"],
    ]);
    expect(groups[1]?.settings.map(({ name }) => name)).toEqual(["phase1.encoder.hidden_dims"]);
  });

  it("are lists where they have several values, and none where they are empty", () => {
    const settings = [
      setting({ name: "dims", kind: "ints", default: [128, 128], group: "phase1/encoder" }),
      setting({ name: "families", kind: "words", default: ["losses"], group: "logging" }),
      setting({ name: "clip", kind: "float", default: "", is_optional: true, group: "phase1/trainer" }),
    ];
    const typed = { dims: "64, 32", families: "losses,recon", clip: "" };
    expect(readSettings({ settings }, typed).settings).toEqual({
      dims: [64, 32],
      families: ["losses", "recon"],
    });
    expect(readSettings({ settings }, { dims: "128,128" }).settings).toEqual({});
    expect(readSettings({ settings }, { dims: "64, x" }).problems).toEqual({
      dims: "Enter whole numbers, separated by commas",
    });
  });
});

it("choices that are too many or too long for a row of the dialog go into a menu", () => {
  expect(fitsSegments(["off", "auto", "bf16", "fp16"])).toBe(true);
  expect(fitsSegments(["default", "plots_full", "plots_minimal", "plots_standard"])).toBe(false);
  expect(fitsSegments(["a", "b", "c", "d", "e"])).toBe(false);
});
