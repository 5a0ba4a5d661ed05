import { describe, expect, it } from "vitest";
import type { KeptEvidence, StateOut, Stop } from "@/api/types";
import {
  batchFact,
  causeText,
  endPill,
  keptOf,
  measureText,
  printedLines,
  shownStop,
  splitError,
} from "./stopText";

const stop: Stop = {
  id: "12480",
  kept: true,
  step: 12_480,
  timeline: 0,
  current: true,
  attempt: 1,
  at: 100,
  lasted_s: 190,
  cause: "breakpoint",
  who: "breakpoint",
  reason: null,
  breakpoint: {
    breakpoint: 2,
    condition: "loss z-score > 4",
    value: 12.5,
    limit: 4,
    step: 12_480,
    samples: [],
    note: null,
    layer: null,
    action: "pause",
    rule: null,
    explanation: null,
  } as unknown as Stop["breakpoint"],
  batch_step: 12_479,
  samples: 128,
  of_samples: 256,
  step_data: ["layers", "features"],
  not_kept: {},
  bytes: 3_000,
};
const end: Stop = {
  ...stop,
  id: "25000-end",
  step: 25_000,
  batch_step: 24_999,
  cause: "finished",
  breakpoint: null,
};
const kept: KeptEvidence = {
  stops: [stop],
  end,
  shown: "25000-end",
  checkpoints: [
    { name: "12000", step: 12_000, timeline: 0, current: true, best: false, at: 0, bytes: 1 },
    { name: "24000", step: 24_000, timeline: 0, current: false, best: true, at: 0, bytes: 1 },
  ],
  console_bytes: 2_000,
  bytes: 3_250_000,
};

describe("a stop in words", () => {
  it("names what led to it and what was measured", () => {
    expect([causeText(stop), measureText(stop)]).toEqual(["breakpoint 2", "z 12.5"]);
    const reached = {
      ...stop,
      breakpoint: stop.breakpoint && { ...stop.breakpoint, condition: "step = 12,156" },
    };
    expect(measureText(reached)).toBe("reached");
    const paused = { ...stop, cause: "pause", who: "page", breakpoint: null } as const;
    expect([causeText(paused), measureText(paused)]).toEqual(["page", "3 m"]);
  });

  it("says what of it can be shown, and of which samples", () => {
    expect(keptOf(stop)).toBe("batch, layers and 1 panel");
    expect(batchFact(stop)).toBe("first 128 of 256 of step 12,480");
    expect(shownStop(kept, null)).toBe(end);
    expect(shownStop(kept, "12480")).toBe(stop);
    expect(shownStop(kept, "1")).toBeNull();
  });
});

describe("endPill", () => {
  const finished = { state: "finished", step: 25_000, reason: null } as StateOut;

  it("lists what was kept, and for how long the process has been gone", () => {
    expect(endPill(finished, kept, { ended_at: 0 }, 7_300)).toMatchObject({
      tone: "neutral",
      title: "Kept at the end",
      text: "last batch, layers, 1 stop, console · 3.1 MiB · process gone 2 h ago",
      action: "files",
    });
  });

  it("says how to keep something where nothing was kept", () => {
    const none = { stops: [], end: null, shown: null, checkpoints: [], console_bytes: 0, bytes: 0 };
    expect(endPill(finished, none, undefined, 0)).toMatchObject({ title: "Nothing was kept", action: null });
  });

  it("names error or kill, and the last checkpoint of the present timeline", () => {
    const failed = { ...finished, state: "failed", reason: "torch.OutOfMemoryError: no room" } as StateOut;
    expect(endPill(failed, kept, undefined, 0)).toMatchObject({
      tone: "bad",
      title: "OutOfMemoryError at step 25,000",
      text: "no room · last checkpoint 12,000",
      action: "traceback",
    });
    const killed = { ...finished, state: "killed" } as StateOut;
    expect(endPill(killed, { ...kept, end: null, checkpoints: [] }, undefined, 0)).toMatchObject({
      tone: "bad",
      title: "Killed at step 25,000",
    });
    expect(splitError("")).toEqual(["Failed", ""]);
  });
});

describe("printedLines", () => {
  it("tells warnings and tracebacks from other lines, with their numbers", () => {
    const text = [
      "epoch 1",
      "a.py:3: UserWarning: lr",
      "  warnings.warn()",
      "epoch 2",
      "Traceback (most recent call last):",
      '  File "a.py"',
      "ValueError: bad",
      "bye",
      "",
    ].join("\n");
    expect(printedLines(text, 10).map(({ number, tone }) => `${number} ${tone}`)).toEqual([
      "10 plain",
      "11 warn",
      "12 warn",
      "13 plain",
      "14 bad",
      "15 bad",
      "16 bad",
      "17 plain",
    ]);
  });
});
