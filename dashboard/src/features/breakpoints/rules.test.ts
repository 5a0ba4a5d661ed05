import { describe, expect, it } from "vitest";
import type { RuleOut } from "@/api/types";
import { EMPTY_DRAFT, parseDraft } from "./conditions";
import { ruleDraft, ruleFields } from "./rules";

const RULE: RuleOut = {
  rule: "dead_relus",
  title: "Dead ReLUs",
  words: "share of dead units in a ReLU layer > 0.9",
  defaults: { limit: 0.9, low: null, window: 2, every: 50, layers: null, metric: null },
  needs_model: true,
  explanation: { title: "Dead ReLUs", means: "", causes: [], advice: [] },
};

describe("rules in the form", () => {
  it("offer the limits they take, and layers where they look into a model", () => {
    expect(ruleFields(RULE).map(({ field }) => field)).toEqual(["limit", "window", "every", "layers"]);
    expect(ruleFields({ ...RULE, needs_model: false }).map(({ field }) => field)).not.toContain("layers");
  });

  it("make a condition with their defaults, and leave out what is empty", () => {
    const draft = { ...EMPTY_DRAFT, ...ruleDraft(RULE) };
    expect(parseDraft(draft)).toEqual({
      condition: { kind: "rule", rule: "dead_relus", limit: 0.9, window: 2, every: 50 },
    });
    expect(parseDraft({ ...draft, limit: "", layers: "encoder" })).toEqual({
      condition: { kind: "rule", rule: "dead_relus", window: 2, every: 50, layers: "encoder" },
    });
  });

  it("name the field that does not do", () => {
    const draft = { ...EMPTY_DRAFT, ...ruleDraft(RULE), every: "0" };
    expect(parseDraft(draft)).toMatchObject({ error: { field: "every" } });
  });
});
