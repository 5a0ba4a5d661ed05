import { describe, expect, it } from "vitest";
import { groupText, nearGroups } from "./markGroups";

const mark = (x: number) => ({ x, text: "2", now: false });

describe("marks", () => {
  it("that are near to each other are one group", () => {
    expect(nearGroups([0, 10, 23, 37, 60], 14)).toEqual([[0, 1, 2], [3], [4]]);
    expect(nearGroups([], 14)).toEqual([]);
  });

  it("of a group have one text, with as many digits as their distance has", () => {
    expect(groupText([12_156, 12_303, 12_480].map(mark))).toBe("3 stops around 12,300");
    expect(groupText([7, 7].map(mark))).toBe("2 stops around 7");
    expect(groupText([mark(7)])).toBe("2");
  });
});
