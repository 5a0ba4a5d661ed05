import { describe, expect, it } from "vitest";
import { pushesNothing } from "./useStepEntry";

describe("pushesNothing", () => {
  const none = { parked: true, step_data_keys: [] };

  it("is known once a step was taken while the page watched", () => {
    expect(pushesNothing(null, { ...none, step: 9 })).toBe(false);
    expect(pushesNothing(9, { ...none, step: 9 })).toBe(false);
    expect(pushesNothing(9, { ...none, step: 10 })).toBe(true);
  });

  it("is not said of a run that pushes, nor too early of one that goes on", () => {
    expect(pushesNothing(9, { ...none, step: 99, step_data_keys: ["layers"] })).toBe(false);
    expect(pushesNothing(9, { ...none, step: 12, parked: false })).toBe(false);
    expect(pushesNothing(9, { ...none, step: 99, parked: false })).toBe(true);
  });
});
