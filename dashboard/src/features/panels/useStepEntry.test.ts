import { describe, expect, it } from "vitest";
import { hasPushedNothing, momentOf } from "./useStepEntry";

describe("hasPushedNothing", () => {
  const none = { parked: true, step_data_keys: [] };

  it("is known once a step was made while the panel was in view", () => {
    expect(hasPushedNothing(null, true, { ...none, step: 9 })).toBe(false);
    expect(hasPushedNothing(9, true, { ...none, step: 9 })).toBe(false);
    expect(hasPushedNothing(9, false, { ...none, step: 10 })).toBe(true);
  });

  it("is not said of a run that pushes, nor too early of one that is running", () => {
    expect(hasPushedNothing(9, true, { ...none, step: 99, step_data_keys: ["layers"] })).toBe(false);
    expect(hasPushedNothing(9, true, { ...none, step: 12, parked: false })).toBe(false);
    expect(hasPushedNothing(9, false, { ...none, step: 99, parked: false })).toBe(false);
    expect(hasPushedNothing(9, true, { ...none, step: 99, parked: false })).toBe(true);
  });
});

describe("momentOf", () => {
  const first = { timeline: 0, step_data_step: 4, step_data_additions: 3 };

  it("changes when the same step is given other data, and with every other step", () => {
    const moments = [
      first,
      { ...first, step_data_additions: 6 },
      { ...first, step_data_step: 5, step_data_additions: 0 },
      { ...first, timeline: 1 },
    ].map(momentOf);
    expect(new Set(moments).size).toBe(4);
    expect(momentOf({ ...first })).toBe(moments[0]);
  });

  it("is nothing while nothing is shown", () => {
    expect(momentOf({ ...first, step_data_step: null })).toBeNull();
  });
});
