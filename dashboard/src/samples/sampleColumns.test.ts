import { describe, expect, it } from "vitest";
import { csvOf } from "@/ui/export/csv";
import { fakeBatch } from "./fakeBatch";
import { textColumns } from "./rows/TextRows";
import { sampleColumns } from "./sampleColumns";
import { samplesOf } from "./samples";

const columnsOf = (changes: Parameters<typeof fakeBatch>[0], short = true) => {
  const batch = fakeBatch({ losses: null, ...changes });
  return sampleColumns(batch, samplesOf(batch), { short });
};
const summary = (columns: ReturnType<typeof columnsOf>) =>
  columns.map(({ name, cells, numeric }) => [name, cells[0], numeric]);

describe("sampleColumns", () => {
  it("gives a table id, target, targets of several numbers, prediction, loss, then its inputs", () => {
    const columns = columnsOf({
      kind: "table",
      labels: [0.5, "NaN", 1, 2],
      predictions: [0.25, 0, 0, 0],
      losses: [1, 2, 3, 4],
      columns: [
        { name: "age", role: "input", cells: [30, "NaN", 3, 4] },
        { name: "city", role: "input", cells: ["Graz", "Linz", "Wien", "Wien"] },
        { name: "target 0", role: "target", cells: [1, 2, 3, 4] },
      ],
    });
    expect(summary(columns)).toEqual([
      ["sample", 70, true],
      ["target", 0.5, true],
      ["target 0", 1, true],
      ["prediction", 0.25, true],
      ["loss", 1, true],
      ["age", 30, true],
      ["city", "Graz", false],
    ]);
    expect(columns[5]?.cells[1]).toBeNaN();
  });

  it("aligns classes as the names that they are", () => {
    expect(summary(columnsOf({ labels: [7, 0, 1, 2] }))[1]).toEqual(["target", 7, false]);
  });

  it("keeps names apart that the batch and the page both use", () => {
    const columns = columnsOf({ columns: [{ name: "sample", role: "input", cells: [1, 2, 3, 4] }] });
    expect(columns.map(({ name }) => name)).toEqual(["sample", "target", "sample (2)"]);
  });

  it("shows the first values of a long row, and exports all that came", () => {
    const rows = Array.from({ length: 4 }, () => Array.from({ length: 40 }, (_, index) => index));
    expect(columnsOf({ kind: "vectors", rows, labels: null })).toHaveLength(1 + 12);
    expect(columnsOf({ kind: "vectors", rows, labels: null }, false)).toHaveLength(1 + 40);
  });

  it("writes tokens of any length as one text each", () => {
    const columns = columnsOf({ kind: "tokens", labels: null, rows: [[1, 2, 3], [4], [], [5, 6]] });
    expect(columns[1]?.cells).toEqual(["1 2 3", "4", "", "5 6"]);
  });

  it("exports texts as they are, harmless to a spreadsheet", () => {
    const columns = columnsOf({ kind: "text", texts: ["=1+1", 'say "hi"', "a,b", "x"], labels: null });
    expect(csvOf(columns).split("\r\n").slice(0, 3)).toEqual(["sample,text", "70,'=1+1", '71,"say ""hi"""']);
  });
});

describe("textColumns", () => {
  it("puts the text after the id and leaves the numbers of its tokens to the export", () => {
    const batch = fakeBatch({
      kind: "tokens",
      texts: ["a", "b", "c", "d"],
      rows: [[1], [2], [3], [4]],
      predictions: [1, 1, 1, 1],
    });
    const names = textColumns(batch, samplesOf(batch), "light").map(({ name }) => name);
    expect(names).toEqual(["sample", "text", "target", "prediction", "loss"]);
    const plain = { ...batch, texts: null };
    expect(textColumns(plain, samplesOf(plain), "light")[1]?.name).toBe("tokens");
  });
});
