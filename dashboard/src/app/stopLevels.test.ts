import { describe, expect, it } from "vitest";
import { firstLevel, isOver, nextLevel } from "./stopLevels";

describe("ways to end a run", () => {
  it("ask first, and where nothing answers begin with the process", () => {
    expect(firstLevel("running")).toBe("stop");
    expect(firstLevel("paused")).toBe("stop");
    expect(firstLevel("not responding")).toBe("terminate");
  });

  it("get harder one after the other", () => {
    expect(nextLevel("stop")).toBe("terminate");
    expect(nextLevel("terminate")).toBe("kill");
    expect(nextLevel("kill")).toBe("kill");
  });

  it("know what is over", () => {
    expect(isOver("killed")).toBe(true);
    expect(isOver("stopping")).toBe(false);
    expect(isOver(undefined)).toBe(false);
  });
});
