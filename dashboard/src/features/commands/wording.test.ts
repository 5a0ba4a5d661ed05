import { describe, expect, it } from "vitest";
import { commandText, outcome, whoText } from "./wording";

describe("commands in words", () => {
  it("writes name and payload as one types them", () => {
    expect(commandText({ who: "page", command: "step", payload: { n: 8 } })).toBe("step n=8");
    expect(commandText({ who: "page", command: "pause", payload: {} })).toBe("pause");
    expect(commandText({ who: "page", command: "watch", payload: { ids: [1, 2], on: { a: 1 } } })).toBe(
      "watch ids=[2] on={…}",
    );
  });

  it("says which breakpoint asked, once", () => {
    const hit = { who: "breakpoint" as const, command: "pause", payload: { breakpoint: 2 } };
    expect([commandText(hit), whoText(hit)]).toEqual(["pause", "breakpoint 2"]);
    expect(whoText({ who: "cli", payload: {} })).toBe("cli");
  });

  it("gives a duration when done, a reason when not, and the progress in between", () => {
    const base = { reason: null, duration_s: null, progress: null };
    expect(outcome({ ...base, status: "done", duration_s: 0.018 })).toEqual({ text: "18 ms", tone: "ok" });
    expect(outcome({ ...base, status: "refused", reason: "running" })).toEqual({
      text: "Refused: running",
      tone: "bad",
    });
    expect(outcome({ ...base, status: "failed", reason: "disk full" })).toEqual({
      text: "Failed: disk full",
      tone: "bad",
    });
    expect(outcome({ ...base, status: "running", progress: 0.5 })).toEqual({ text: "50 %", tone: "busy" });
    expect(outcome({ ...base, status: "pending" })).toEqual({ text: "Waiting…", tone: "busy" });
  });
});
