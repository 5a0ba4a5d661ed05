import { describe, expect, it } from "vitest";
import { firstWay, isOver, nextWay } from "./stopLevels";

describe("ways to end a run", () => {
  it("ask first, and where nothing answers begin with the process", () => {
    expect(firstWay("running")).toBe("stop");
    expect(firstWay("paused")).toBe("stop");
    expect(firstWay("not responding")).toBe("terminate");
  });

  it("get harder one after the other", () => {
    expect(nextWay("stop")).toBe("terminate");
    expect(nextWay("terminate")).toBe("kill");
    expect(nextWay("kill")).toBe("kill");
  });

  it("know what is over", () => {
    expect(isOver("killed")).toBe(true);
    expect(isOver("stopping")).toBe(false);
    expect(isOver(undefined)).toBe(false);
  });
});
