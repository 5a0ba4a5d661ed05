import { describe, expect, it } from "vitest";
import type { BreakpointOut, CommandOut, DiagnosedChange } from "@/api/types";
import { bandOf, marksOf, rateMarks } from "./breakpointHits";

function breakpoint(
  id: number,
  condition: BreakpointOut["condition"],
  changes: Partial<BreakpointOut> = {},
): BreakpointOut {
  return {
    id,
    condition,
    words: "",
    enabled: true,
    action: "pause",
    cost_s: null,
    hits: 0,
    hit_steps: [],
    window: null,
    mean: null,
    std: null,
    costs_sync: false,
    missing: [],
    ...changes,
  };
}

describe("bandOf", () => {
  it("is the window and limit of the z-score breakpoint that is on", () => {
    const off = breakpoint(1, { kind: "loss_z", limit: 9, window: 10 }, { enabled: false });
    const on = breakpoint(2, { kind: "loss_z", limit: 3, window: 64 });
    expect(bandOf([off, on])).toEqual({ sigma: 3, window: 64, fewest: 8 });
    expect(bandOf([off])).toEqual({ sigma: 4, window: 200, fewest: 200 });
  });
});

describe("marksOf", () => {
  it("lists hits by step and fills the one where the run stands", () => {
    const list = [
      breakpoint(2, { kind: "loss_nonfinite" }, { hit_steps: [12_300, 12_480] }),
      breakpoint(1, { kind: "step", step: 12_156 }, { hit_steps: [12_156] }),
    ];
    expect(marksOf(list, [], { id: 2, step: 12_480 })).toEqual([
      { x: 12_156, text: "1", now: false },
      { x: 12_300, text: "2", now: false },
      { x: 12_480, text: "2", now: true },
    ]);
  });

  it("keeps the hits of a breakpoint that was removed, and none twice", () => {
    const pause = (step: number | null, id: number, who: CommandOut["who"] = "breakpoint") =>
      ({ who, step, payload: { breakpoint: id } }) as unknown as CommandOut;
    const list = [breakpoint(1, { kind: "step", step: 5 }, { hit_steps: [5] })];
    const log = [pause(5, 1), pause(9, 2), pause(null, 2), pause(11, 3, "page")];
    expect(marksOf(list, log, null).map(({ x, text }) => [x, text])).toEqual([
      [5, "1"],
      [9, "2"],
    ]);
  });
});

describe("rateMarks", () => {
  const change = (key: string, step: number | null, reading = "× 80"): DiagnosedChange => ({
    key,
    what: key,
    before: null,
    after: null,
    line: [],
    step,
    reading,
    is_cause: false,
  });

  it("is the first learning rate that jumped, and no other change", () => {
    const changes = [change("grad_norm", 3), change("lr.D", 9, "× 2"), change("lr.G", 7), change("lr", null)];
    expect(rateMarks(changes)).toEqual([{ x: 7, text: "lr of G × 80 at 7", now: false, plain: true }]);
    expect(rateMarks([change("lr", null)])).toEqual([]);
  });
});
