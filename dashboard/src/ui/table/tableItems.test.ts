import { describe, expect, it } from "vitest";
import { itemAfter, tableItems } from "./tableItems";

const items = (text: string) =>
  [...text].map((letter) => ({ kind: letter === "g" ? ("group" as const) : ("row" as const) }));

describe("tableItems", () => {
  it("are the rows in their order where there are no groups", () => {
    expect(tableItems([2, 0, 1], undefined)).toEqual([2, 0, 1].map((row) => ({ kind: "row", row })));
  });

  it("keep that order within each group, without rows that are filtered out or folded away", () => {
    const groups = [
      { key: "a", rows: [0, 1, 5] },
      { key: "b", rows: [2, 3], closed: true },
    ];
    const lines = tableItems([3, 5, 2, 0], groups);
    expect(lines.map((item) => (item.kind === "row" ? item.row : item.group.key))).toEqual(["a", 5, 0, "b"]);
    expect(groups[0]?.rows).toEqual([0, 1, 5]);
  });
});

describe("itemAfter", () => {
  it("walks over groups and stops at the ends", () => {
    const list = items("grrgr");
    expect(itemAfter(list, -1, "ArrowDown", 10)).toBe(1);
    expect(itemAfter(list, 2, "ArrowDown", 10)).toBe(4);
    expect(itemAfter(list, 4, "ArrowUp", 10)).toBe(2);
    expect(itemAfter(list, 4, "ArrowDown", 10)).toBe(4);
    expect(itemAfter(list, 1, "ArrowUp", 10)).toBe(1);
    expect(itemAfter(list, 2, "PageDown", 10)).toBe(4);
    expect(itemAfter(list, 4, "Home", 10)).toBe(1);
    expect(itemAfter(items("grg"), 1, "End", 10)).toBe(1);
  });

  it("leads nowhere by other keys, or where there is no row", () => {
    expect(itemAfter(items("r"), 0, "x", 10)).toBeNull();
    expect(itemAfter(items("gg"), -1, "ArrowDown", 10)).toBeNull();
    expect(itemAfter([], -1, "End", 10)).toBeNull();
  });
});
