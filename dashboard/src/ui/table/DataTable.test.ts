import { describe, expect, it } from "vitest";
import { summaryOf } from "./DataTable";

describe("summaryOf", () => {
  const column = { name: "loss", cells: [1, 2, 9, Number.NaN], numeric: true };

  it("is of the rows shown", () => {
    expect(summaryOf(column)).toMatchObject({ count: 4, mean: 4, minimum: 1, maximum: 9 });
    expect(summaryOf(column, [0, 1])).toMatchObject({ count: 2, mean: 1.5, minimum: 1, maximum: 2 });
    expect(summaryOf(column, [])).toMatchObject({ count: 0 });
    expect(summaryOf({ ...column, numeric: false })).toBeNull();
  });
});
