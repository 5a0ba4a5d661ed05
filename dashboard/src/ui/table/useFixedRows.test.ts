import { describe, expect, it } from "vitest";
import { scrollTopFor, seenRows } from "./useFixedRows";

/** The obvious way: look at every row. */
function slowlySeen(
  scrollTop: number,
  height: number,
  rowHeight: number,
  head: number,
  count: number,
): number[] {
  return Array.from({ length: count }, (_, index) => index).filter((index) => {
    const top = head + index * rowHeight;
    return top + rowHeight > scrollTop && top < scrollTop + height;
  });
}

describe("seenRows", () => {
  it.each([0, 24, 30])("names the same rows as a look at each of them (head %i)", (head) => {
    for (const height of [1, 100, 333.5]) {
      for (const scrollTop of [0, 1, 23, 24, 25, 640, 641.25, 2_000]) {
        const seen = slowlySeen(scrollTop, height, 24, head, 200);
        const [first, stop] = seenRows(scrollTop, height, { rowHeight: 24, head });
        for (const index of seen) {
          expect(index).toBeGreaterThanOrEqual(first);
          expect(index).toBeLessThan(stop);
        }
        expect(stop - first).toBeLessThanOrEqual(seen.length + 1);
      }
    }
  });

  it("holds at the end of 100,000 rows, also between the pixels of a page at 200 %", () => {
    expect(seenRows(99_990 * 24, 240, {})).toEqual([99_990, 100_000]);
    expect(seenRows(99_990 * 24 + 0.5, 239.5, {})).toEqual([99_990, 100_000]);
  });

  it("has no row where there is no height", () => {
    expect(seenRows(0, 0, {})).toEqual([0, 0]);
  });
});

describe("scrollTopFor", () => {
  const layout = { rowHeight: 24, head: 24, foot: 66 };
  const isWhole = (index: number, scrollTop: number, height: number) => {
    const top = layout.head + index * 24;
    return top >= scrollTop + layout.head && top + 24 <= scrollTop + height - layout.foot;
  };

  it("brings every row between head and foot, and moves no further than needed", () => {
    for (const from of [0, 500, 23_000]) {
      for (const index of [0, 1, 7, 20, 21, 999, 99_999]) {
        const next = scrollTopFor(index, from, 300, layout);
        expect(isWhole(index, next, 300)).toBe(true);
        if (isWhole(index, from, 300)) expect(next).toBe(from);
        else expect(isWhole(index, next + Math.sign(from - next), 300)).toBe(false);
      }
    }
  });

  it("puts a row under the head where the list is too low for one", () => {
    expect(scrollTopFor(10, 0, 50, layout)).toBe(240);
  });
});
