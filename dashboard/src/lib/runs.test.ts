import { describe, expect, it } from "vitest";
import type { RunOut } from "@/api/types";
import { sortRuns } from "./runs";

const run = (id: string, state: RunOut["state"], step: number | null, startedAt: number): RunOut => ({
  id,
  name: `run-${id}`,
  directory: id,
  state,
  live: false,
  step,
  total_steps: null,
  started_at: startedAt,
  attempt: 1,
  timeline: 0,
  scalars: [],
});

const runs = [run("a", "finished", 10, 1), run("b", "failed", null, 3), run("c", "finished", 2, 2)];
const ids = (found: RunOut[]) => found.map(({ id }) => id).join("");

describe("sortRuns", () => {
  it("orders by any column, both ways, with unknown values last", () => {
    expect(ids(sortRuns(runs, "", "-started"))).toBe("bca");
    expect(ids(sortRuns(runs, "", "step"))).toBe("cab");
    expect(ids(sortRuns(runs, "", "-step"))).toBe("acb");
  });

  it("keeps runs that match every word", () => {
    expect(ids(sortRuns(runs, "finished run", "name"))).toBe("ac");
    expect(ids(sortRuns(runs, "nothing", "name"))).toBe("");
  });
});
