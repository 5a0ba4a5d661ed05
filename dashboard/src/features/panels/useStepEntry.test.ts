import { describe, expect, it } from "vitest";
import { momentOf } from "./useStepEntry";

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
