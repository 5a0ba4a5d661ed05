import { describe, expect, it } from "vitest";
import type { Condition } from "@/api/types";
import { conditionWords, type Draft, EMPTY_DRAFT, KINDS, parseDraft } from "./conditions";

const draft = (changes: Partial<Draft>): Draft => ({ ...EMPTY_DRAFT, ...changes });

describe("parseDraft", () => {
  it.each<[Partial<Draft>, Condition]>([
    [
      { kind: "step", step: "12,156" },
      { kind: "step", step: 12156 },
    ],
    [
      { kind: "every", n: "100" },
      { kind: "every", n: 100 },
    ],
    [{ kind: "loss_nonfinite" }, { kind: "loss_nonfinite" }],
    [
      { kind: "loss_z", limit: "4.5" },
      { kind: "loss_z", limit: 4.5, window: 200 },
    ],
    [
      { kind: "grad_norm", limit: "1e1" },
      { kind: "grad_norm", limit: 10 },
    ],
    [
      { kind: "metric", name: "acc", op: "<", value: "−0.5" },
      { kind: "metric", name: "acc", op: "<", value: -0.5 },
    ],
    [
      { kind: "sample", ids: "7369, 12 5" },
      { kind: "sample", ids: [7369, 12, 5] },
    ],
    [
      { kind: "expression", expression: " loss > 1 " },
      { kind: "expression", expression: "loss > 1" },
    ],
  ])("reads %o", (changes, condition) => {
    expect(parseDraft(draft(changes))).toEqual({ condition });
  });

  it.each<[Partial<Draft>, string, string]>([
    [{ kind: "step", step: "" }, "step", "Enter a number"],
    [{ kind: "step", step: "1.5" }, "step", "Enter a whole number, 0 or more"],
    [{ kind: "every", n: "0" }, "n", "Enter a whole number, 1 or more"],
    [{ kind: "loss_z", limit: "-1" }, "limit", "Enter a number above 0"],
    [{ kind: "loss_z", window: "200000" }, "window", "Enter at most 100,000"],
    [{ kind: "metric", name: " " }, "name", "Required"],
    [{ kind: "sample", ids: "seven" }, "ids", "Enter sample ids, for example 7369, 8120"],
  ])("says which field of %o does not do", (changes, field, message) => {
    expect(parseDraft(draft(changes))).toEqual({ error: { field, message } });
  });
});

describe("conditionWords", () => {
  it.each<[Condition, string]>([
    [{ kind: "step", step: 12156 }, "step = 12,156"],
    [{ kind: "every", n: 1000 }, "every 1,000 steps"],
    [{ kind: "loss_nonfinite" }, "loss is not finite"],
    [{ kind: "loss_z", limit: 4, window: 200 }, "loss z-score > 4"],
    [{ kind: "grad_norm", limit: 10 }, "grad_norm > 10"],
    [{ kind: "metric", name: "acc", op: "<=", value: 0.25 }, "acc <= 0.25"],
    [{ kind: "sample", ids: [7369] }, "sample 7,369 seen"],
    [{ kind: "sample", ids: [1, 2, 3] }, "one of 3 samples seen"],
    [{ kind: "expression", expression: "loss > 1" }, "loss > 1"],
  ])("says %o", (condition, words) => {
    expect(conditionWords(condition)).toBe(words);
  });

  it("offers all eight kinds once", () => {
    expect(new Set(KINDS.map((choice) => choice.kind)).size).toBe(8);
  });
});
