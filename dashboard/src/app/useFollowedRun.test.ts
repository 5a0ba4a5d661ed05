import { describe, expect, it } from "vitest";
import type { RunRow } from "@/api/types";
import { chooseRun } from "./useFollowedRun";

const runs = [
  { id: "new", live: false },
  { id: "live", live: true },
  { id: "old", live: true },
] as RunRow[];

describe("chooseRun", () => {
  it("takes the run that the address names, also before the list is there", () => {
    expect(chooseRun(runs, "old", "live")).toBe("old");
    expect(chooseRun(undefined, "old", null)).toBe("old");
  });

  it("follows nothing when the named run is not there, rather than another one", () => {
    expect(chooseRun(runs, "gone", null)).toBe(null);
    expect(chooseRun(runs, "older", null, false)).toBe("older");
  });

  it("stays with the run it follows", () => {
    expect(chooseRun(runs, "", "old")).toBe("old");
  });

  it("starts with the newest live run, else the newest", () => {
    expect(chooseRun(runs, "", null)).toBe("live");
    expect(chooseRun(runs.slice(0, 1), "", null)).toBe("new");
    expect(chooseRun([], "", "gone")).toBe(null);
  });
});
