import { describe, expect, it } from "vitest";
import { profileOf, profileText } from "./profile";

const ROW = {
  name: "aten::addmm",
  calls: 10,
  self_cpu_us: 900,
  cpu_us: 1200,
  self_device_us: 0,
  device_us: 0,
};
const PROFILE = { steps: 5, first_step: 4, duration_s: 0.25, rows: [ROW], trace: null };

describe("the profile of a run", () => {
  it("keeps the rows that can be shown", () => {
    const profile = profileOf({ ...PROFILE, rows: [ROW, { ...ROW, calls: "ten" }, null] });
    expect(profile?.rows).toEqual([ROW]);
    expect(profile && profileText(profile)).toMatch(/^5 steps from step 4, /);
  });

  it("is none where a file of that name holds something else", () => {
    for (const content of [null, [], "profile", { rows: [ROW] }, { ...PROFILE, rows: {} }])
      expect(profileOf(content)).toBeNull();
  });
});
