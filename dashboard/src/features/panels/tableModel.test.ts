import { describe, expect, it } from "vitest";
import { shapeOf } from "./dataShape";
import { csvOfShaped, filterProblem, filterRows, matrixStatistics, tableColumns } from "./tableModel";

const shaped = shapeOf({ win_rate: [0.1, "NaN", 0.3], status: ["dead", "winner", "dead"] });
if (shaped.kind !== "table") throw new Error("not a table");
const columns = tableColumns(shaped);

describe("filterRows", () => {
  it("compares a column, finds a row by number and looks for text", () => {
    expect(filterRows(columns, "win_rate > 0.2")).toEqual([2]);
    expect(filterRows(columns, "win_rate<=1e-1")).toEqual([0]);
    expect(filterRows(columns, "1")).toEqual([1]);
    expect(filterRows(columns, "Dead")).toEqual([0, 2]);
    expect(filterRows(columns, "nothing like it")).toEqual([]);
    expect(filterRows(columns, "  ")).toBeNull();
  });
});

describe("filterProblem", () => {
  it.each([
    ["win_rate >>", "This does not parse. Write a column, a sign and a number: win_rate > 0.5"],
    ["win_rate >", "This does not parse. Write a column, a sign and a number: win_rate > 0.5"],
    ["win > 0.5", "There is no column win."],
    ["status > 0.5", "status holds text. Type the word to look for."],
  ])("says what is wrong with %s", (filter, problem) => expect(filterProblem(columns, filter)).toBe(problem));

  it.each(["", "dead", "nothing like it", "win_rate > 9", "row<=1"])("is content with %s", (filter) =>
    expect(filterProblem(columns, filter)).toBeNull(),
  );

  it("does not mistake a text with signs in it", () => {
    const signs = shapeOf({ rule: ["a >> b", "c"], value: [1, 2] });
    if (signs.kind !== "table") throw new Error(signs.kind);
    expect(filterProblem(tableColumns(signs), "a >>")).toBeNull();
  });
});

describe("export and statistics", () => {
  it("writes tables, matrices and lists as CSV, and nothing else", () => {
    expect(csvOfShaped(shaped)).toBe("row,win_rate,status\r\n0,0.1,dead\r\n1,NaN,winner\r\n2,0.3,dead\r\n");
    expect(
      csvOfShaped(
        shapeOf([
          [1, 2],
          [3, 4],
        ]),
      ),
    ).toBe("0,1\r\n1,2\r\n3,4\r\n");
    expect(csvOfShaped(shapeOf({ a: 1 }))).toBe("name,value\r\na,1\r\n");
    expect(csvOfShaped(shapeOf({ a: { b: 1 } }))).toBeNull();
  });

  it("counts what is not finite in a matrix", () => {
    const matrix = shapeOf([
      [1, "NaN"],
      [3, 4],
    ]);
    if (matrix.kind !== "matrix") throw new Error(matrix.kind);
    expect(Object.fromEntries(matrixStatistics(matrix))).toMatchObject({ min: 1, max: 4, "not finite": 1 });
  });

  it("gives the row number a name that no column has", () => {
    const taken = shapeOf({ row: [5, 6] });
    if (taken.kind !== "table") throw new Error(taken.kind);
    expect(tableColumns(taken).map(({ name }) => name)).toEqual(["#", "row"]);
  });
});
