import { describe, expect, it } from "vitest";
import type { Evidence, StateOut } from "@/api/types";
import { diagnosedStep } from "./diagnosis";

const parked = {
  state: "paused",
  parked: true,
  stopped: false,
  step: 18,
  diagnosed_step: 18,
  breakpoint: { title: "Loss is NaN." } as Evidence,
} as StateOut;

describe("diagnosedStep", () => {
  it("is the step at which the run is parked", () => {
    expect(diagnosedStep(parked)).toBe(18);
  });

  it("is none before the cause was looked for, and after the run moved on", () => {
    expect(diagnosedStep({ ...parked, breakpoint: { title: null } as Evidence })).toBeNull();
    expect(diagnosedStep({ ...parked, step: 17 })).toBeNull();
    expect(diagnosedStep({ ...parked, parked: false, state: "running" })).toBeNull();
    expect(diagnosedStep({ ...parked, diagnosed_step: null })).toBeNull();
  });

  it("is the step that raised, and that of a stored run", () => {
    expect(diagnosedStep({ ...parked, state: "failed", breakpoint: null, step: 17 })).toBe(18);
    expect(diagnosedStep({ ...parked, state: "killed", parked: false, breakpoint: null })).toBe(18);
  });
});
