import { describe, expect, it } from "vitest";
import type { Evidence, StateOut } from "@/api/types";
import { evidenceText, statusPillOf } from "./statusPill";

const evidence: Evidence = {
  breakpoint: 2,
  condition: "loss z-score > 4",
  value: 12.5,
  limit: 4,
  step: 12_480,
  samples: [7, 8],
  note: "6 of 128 samples carry 38 % of the loss",
  layer: null,
  action: "pause",
  rule: null,
  explanation: null,
  positions: [],
  title: null,
  cause: null,
};
const state = {
  state: "paused",
  parked: true,
  step: 12_480,
  breakpoint: evidence,
  reason: null,
} as StateOut;
const live = { status: "live", ageS: 0 } as const;

describe("the cause of a stop", () => {
  const cause = "First non-finite: input of sample 1,234 → conv1 output";
  const found = { ...evidence, title: "Loss is NaN.", cause, samples: [1234] };

  it("stands in place of the symptom, with the way back", () => {
    expect(statusPillOf({ ...state, breakpoint: found }, live)).toMatchObject({
      tone: "bad",
      title: "Loss is NaN.",
      text: cause,
      offer: "back",
    });
  });

  it("that is a change keeps what was measured beside it", () => {
    const changed = {
      ...evidence,
      title: "",
      cause: "Learning rate 0.02 → 1.6 (× 80) at step 300",
      note: null,
    };
    expect(statusPillOf({ ...state, breakpoint: changed }, live)).toMatchObject({
      tone: "warn",
      title: "Stopped by breakpoint 2",
      text: "Learning rate 0.02 → 1.6 (× 80) at step 300 · loss z-score 12.5 > 4",
    });
  });

  it("that is a share of the loss is said once", () => {
    const cause = "Sample 20 carries 69 % of the loss";
    const note = "1 of 32 samples carries 69 % of the loss";
    const shared = { ...evidence, title: "Loss rose to 9.1.", cause, samples: [20], note };
    expect(statusPillOf({ ...state, breakpoint: shared }, live)).toMatchObject({
      title: "Loss rose to 9.1.",
      text: "Sample 20 carries 69 % of the loss · loss z-score 12.5 > 4",
    });
  });

  it("of an error is its traceback", () => {
    const failed = { ...state, state: "failed", reason: "ValueError: no", breakpoint: null } as StateOut;
    expect(statusPillOf(failed, live)).toMatchObject({ title: "Failed.", offer: "traceback" });
  });
});

describe("evidenceText", () => {
  it("puts the measured value before the limit", () => {
    expect(evidenceText(evidence)).toBe("loss z-score 12.5 > 4 · 6 of 128 samples carry 38 % of the loss");
  });

  it("leaves conditions without a limit as they are", () => {
    expect(evidenceText({ ...evidence, condition: "step = 100", value: 100, limit: 100, note: null })).toBe(
      "step = 100",
    );
    const expression = {
      ...evidence,
      condition: "loss > 1 and step > 100",
      value: null,
      limit: null,
      note: null,
    };
    expect(evidenceText(expression)).toBe("loss > 1 and step > 100");
  });

  it("names what is not finite", () => {
    const broken = {
      ...evidence,
      condition: "loss is not finite",
      value: "NaN" as const,
      limit: null,
      note: null,
    };
    expect(evidenceText(broken)).toBe("loss is not finite (NaN)");
  });
});

describe("reasonOf", () => {
  it("explains a breakpoint with its samples", () => {
    expect(statusPillOf(state, live)).toMatchObject({
      tone: "warn",
      title: "Stopped by breakpoint 2",
      samples: [7, 8],
    });
  });

  it("says nothing while the run goes on or was paused by hand", () => {
    expect(statusPillOf({ ...state, parked: false, state: "running", run_until: null }, live)).toBeNull();
    expect(statusPillOf({ ...state, breakpoint: null }, live)).toBeNull();
    expect(statusPillOf(null, live)).toBeNull();
  });

  it("tells why a run is parked at an error, and leaves one that has ended", () => {
    const failed = { ...state, state: "failed", reason: "ValueError: bad batch" } as StateOut;
    expect(statusPillOf(failed, live)).toEqual({
      tone: "bad",
      icon: "close",
      title: "Failed.",
      text: "ValueError: bad batch",
      samples: [],
      offer: "traceback",
    });
    // What was kept of a run that is over is in a pill of its own.
    expect(statusPillOf({ ...failed, parked: false }, live)).toBe("ended");
  });

  it("says where a run goes and what a pause waits for", () => {
    const going = {
      ...state,
      parked: false,
      breakpoint: null,
      run_until: 13_000,
      waiting_for: null,
    } as StateOut;
    expect(statusPillOf({ ...going, state: "running" }, live)).toMatchObject({ text: "520 steps left" });
    const pausing = { ...going, state: "pausing", waiting_for: "in validation, 40 of 79" } as StateOut;
    expect(statusPillOf(pausing, live)).toMatchObject({ text: "in validation, 40 of 79" });
  });

  it("says first of all that nobody answers", () => {
    expect(statusPillOf(state, { status: "not responding", ageS: 12 })).toMatchObject({
      tone: "bad",
      title: "No answer for 12 s.",
    });
  });

  it("names the work between two steps with its time", () => {
    const evaluating = { ...state, state: "running", parked: false, phase: "eval", phase_s: 75 } as StateOut;
    expect(statusPillOf(evaluating, live)).toMatchObject({ title: "eval", text: "for 75.0 s" });
    const between = { ...evaluating, phase: "the work between two epochs", phase_s: null, run_until: null };
    expect(statusPillOf(between, live)).toBeNull();
  });

  it("says what the server said of a run that it cannot reach", () => {
    const why = "It runs on another machine.";
    const reason = statusPillOf(null, { status: "reconnecting", ageS: 0, why });
    expect(reason).toMatchObject({ tone: "bad", title: "Run not reachable.", text: why });
  });
});
