import { describe, expect, it } from "vitest";
import { payloadOf, undoOf, wordsOf } from "./hyperparameters";

describe("hyperparameters", () => {
  it("send what was typed and nothing else", () => {
    expect(payloadOf({ lr: "5e-4", momentum: " " })).toEqual({ payload: { lr: 5e-4 } });
    expect(payloadOf({})).toMatchObject({ name: null });
    expect(payloadOf({ lr: "fast" })).toMatchObject({ name: "lr" });
    expect(payloadOf({ weight_decay: "-1" })).toMatchObject({ name: "weight_decay" });
  });

  it("come back from what the command answered, unless groups differed", () => {
    expect(undoOf({ lr: [1e-3, 1e-3] })).toEqual({ lr: 1e-3 });
    expect(undoOf({ old: { momentum: [0.9] } })).toEqual({ momentum: 0.9 });
    expect(undoOf({ lr: [1e-3, 1e-4] })).toBeNull();
    expect(undoOf(null)).toBeNull();
  });

  it("are told in words", () => {
    expect(wordsOf({ lr: 5e-4, weight_decay: 0.1 })).toBe("lr 5.0e−4, weight decay 0.1");
  });
});
