import { describe, expect, it } from "vitest";
import type { RecipeSetting } from "@/api/types";
import { preview, rangeText, readSetting, readSettings } from "./settings";

function setting(values: Partial<RecipeSetting>): RecipeSetting {
  const plain = { minimum: null, maximum: null, choices: [], about: "" };
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
});
