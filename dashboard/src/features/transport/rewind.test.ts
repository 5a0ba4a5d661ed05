import { describe, expect, it } from "vitest";
import type { RewindOut } from "@/api/types";
import { costText, factText, replays, shareOf, stepAt, ticksOf } from "./rewind";

const REWIND: RewindOut = {
  available: true,
  reason: null,
  first_step: 100,
  step: 200,
  snapshot_steps: [100, 150, 190],
  bytes: 58 * 2 ** 20,
  budget_bytes: 2 ** 30,
  replay_cost_s: 4.9,
  timeline: 0,
};

describe("the rewind track", () => {
  it("places steps between the first one and now, and back", () => {
    expect(shareOf(REWIND, 150)).toBe(0.5);
    expect(shareOf(REWIND, 50)).toBe(0);
    expect(stepAt(REWIND, 0.25)).toBe(125);
    expect(stepAt(REWIND, 2)).toBe(200);
    expect(shareOf({ ...REWIND, first_step: 200 }, 200)).toBe(1);
  });

  it("counts what must be repeated since the snapshot before", () => {
    expect(replays(REWIND, 190)).toBe(0);
    expect(replays(REWIND, 199)).toBe(9);
    expect(costText(REWIND, 190)).toBe("190, no replay needed");
    expect(costText(REWIND, 199)).toBe("199, replays 9 steps, 900 ms");
    expect(costText({ ...REWIND, replay_cost_s: null }, 151)).toBe("151, replays 1 step");
  });

  it("says how much there is", () => {
    expect(factText(REWIND)).toBe("100 steps · 3 snapshots · 58 MiB");
    expect(ticksOf(REWIND)).toEqual([100, 125, 150, 175]);
    expect(ticksOf({ ...REWIND, first_step: 200 })).toEqual([200]);
  });
});
