import { describe, expect, it } from "vitest";
import type { StateOut } from "@/api/types";
import { hasEnded, whyNot } from "./allowed";

const failed = { state: "failed", paused: true, parked: true, stopped: false, steps_left: null } as StateOut;

describe("a run that stands at its error", () => {
  it("has not ended and can be let go", () => {
    expect(hasEnded(failed)).toBe(false);
    expect(whyNot("resume", failed, "live")).toBeNull();
    expect(whyNot("stop", failed, "live")).toBeNull();
  });

  it("cannot be moved", () => {
    expect(whyNot("step", failed, "live")).toMatch(/has failed/);
    expect(whyNot("run_until", failed, "live")).toMatch(/has failed/);
  });

  it("has ended once it no longer stands", () => {
    expect(hasEnded({ ...failed, parked: false })).toBe(true);
  });
});
