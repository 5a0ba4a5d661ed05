import { describe, expect, it } from "vitest";
import { momentOf, pushesNothing } from "./useStepEntry";

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
