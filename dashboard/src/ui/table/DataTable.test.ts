import { describe, expect, it } from "vitest";
import { summaryOf } from "./SummaryRows";
import { tracksOf } from "./tracks";

describe("summaryOf", () => {
  const column = { name: "loss", cells: [1, 2, 9, Number.NaN], numeric: true };

  it("is of the rows shown", () => {
    expect(summaryOf(column)).toMatchObject({ count: 4, mean: 4, minimum: 1, maximum: 9 });
    expect(summaryOf(column, [0, 1])).toMatchObject({ count: 2, mean: 1.5, minimum: 1, maximum: 2 });
    expect(summaryOf(column, [])).toMatchObject({ count: 0 });
    expect(summaryOf({ ...column, numeric: false })).toBeNull();
  });
});

describe("tracksOf", () => {
  const titles = ["Weight norm", "Gradient norm", "Update norm", "Update ÷ weight"];
  const numbers = titles.map((name) => ({ name, cells: [0.5, 0.25], numeric: true }));
  const columns = [{ name: "name", cells: ["0.weight", "0.bias"], numeric: false }, ...numbers];
  const styles = columns.map(() => ({ kind: "fixed", decimals: 4 }) as const);
  const shares = (text: string) =>
    [...text.matchAll(/minmax\((\d+)px,(\d+)fr\)/g)].map(([, , fr]) => Number(fr));

  it("share the room by what whole titles need, so that none is cut where there is room for all", () => {
    const { gridTemplateColumns, minWidth } = tracksOf(columns, styles);
    const wished = shares(gridTemplateColumns);
    expect(wished).toHaveLength(5);
    for (const [index, title] of titles.entries())
      expect(wished[index + 1]).toBeGreaterThan(title.length * 5.5);
    expect(minWidth).toBeLessThan(520);
  });

  it("give names of usual length their room, and take it from short words", () => {
    const named = { ...(columns[0] as (typeof columns)[0]), cells: ["embedding.weight", "head.bias"] };
    const status = { name: "Status", cells: ["usual", "usual"], numeric: false };
    const { gridTemplateColumns, minWidth } = tracksOf([named, status, ...numbers], [...styles, ...styles]);
    const least = [...gridTemplateColumns.matchAll(/minmax\((\d+)px/g)].map(([, px]) => Number(px));
    expect(least[0]).toBeGreaterThan(114);
    expect(least[1]).toBe(72);
    // The panel of layers at 1280 px.
    expect(minWidth).toBeLessThan(564);
  });

  it("leave room for the arrow in the head of the sorted column", () => {
    const plain = shares(tracksOf(columns, styles).gridTemplateColumns);
    const sorted = shares(tracksOf(columns, styles, { sorted: "Gradient norm" }).gridTemplateColumns);
    expect(sorted[2]).toBeGreaterThan(plain[2] ?? 0);
  });
});
