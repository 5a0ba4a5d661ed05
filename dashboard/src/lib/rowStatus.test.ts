import { describe, expect, it } from "vitest";
import { countStatus, type StatusRule, statusOf } from "./rowStatus";

const RULE: StatusRule = {
  field: "win_rate",
  levels: [
    { below: 0.01, above: null, word: "dead", tone: "bad" },
    { below: null, above: 0.05, word: "winner", tone: "good" },
  ],
  otherwise: { word: "contender", tone: "warn" },
};

describe("statusOf", () => {
  it("takes the first level that holds; limits themselves belong to none", () => {
    expect(statusOf(RULE, 0.0099)?.word).toBe("dead");
    expect(statusOf(RULE, 0.01)?.word).toBe("contender");
    expect(statusOf(RULE, 0.05)?.word).toBe("contender");
    expect(statusOf(RULE, 0.0501)?.word).toBe("winner");
    expect(statusOf(RULE, Number.NaN)).toBeNull();
    expect(statusOf(RULE, null)).toBeNull();
  });

  it("says nothing where the rule has no word", () => {
    expect(statusOf({ ...RULE, otherwise: { word: "", tone: "neutral" } }, 0.02)).toBeNull();
  });

  it("counts in the order of the rule, words without rows too", () => {
    const counts = countStatus(RULE, [0.5, 0.02, 0.6, Number.NaN]);
    expect(counts.map(({ word, count }) => [word, count])).toEqual([
      ["dead", 0],
      ["winner", 2],
      ["contender", 1],
    ]);
  });
});
