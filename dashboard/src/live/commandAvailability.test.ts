import { describe, expect, it } from "vitest";
import type { StateOut } from "@/api/types";
import { commandDisabledReason, hasEnded, verbDisabledReason } from "./commandAvailability";

const failed = { state: "failed", paused: true, parked: true, stopped: false, steps_left: null } as StateOut;

describe("a run that stands at its error", () => {
  it("has not ended and can be let go", () => {
    expect(hasEnded(failed)).toBe(false);
    expect(verbDisabledReason("resume", failed, "live")).toBeNull();
    expect(verbDisabledReason("stop", failed, "live")).toBeNull();
  });

  it("cannot be moved", () => {
    expect(verbDisabledReason("step", failed, "live")).toMatch(/raised an exception/);
    expect(verbDisabledReason("run_until", failed, "live")).toMatch(/raised an exception/);
  });

  it("has ended once it no longer stands", () => {
    expect(hasEnded({ ...failed, parked: false })).toBe(true);
  });
});

describe("what a run does not offer", () => {
  const paused = {
    state: "paused",
    paused: true,
    parked: true,
    stopped: false,
    steps_left: null,
  } as StateOut;

  it("is off with a reason", () => {
    const plain = { ...paused, offers: ["pause", "step"] };
    expect(verbDisabledReason("back", plain, "live")).toMatch(/needs snapshots/);
    expect(commandDisabledReason("set_hparams", plain, "live")).toMatch(/does not support/);
  });

  it("is on where it is offered, Back only where the run stands", () => {
    const session = { ...paused, offers: ["back", "set_hparams"] };
    expect(verbDisabledReason("back", session, "live")).toBeNull();
    expect(verbDisabledReason("back", { ...session, parked: false }, "live")).toBe("Pause first");
    expect(commandDisabledReason("set_hparams", { ...session, parked: false }, "live")).toBeNull();
    expect(commandDisabledReason("set_hparams", session, "view only")).toMatch(/view-only/);
  });
});
