import { describe, expect, it } from "vitest";
import { Tensor } from "@/api/tensors";
import type { PanelOut } from "@/api/types";
import { columnsOf, type Hinted, imagesOf, isHinted, matrixOf, seriesOf } from "./hint";
import { hintedSort, metricsTable } from "./metricsModel";
import { SeriesHistory } from "./seriesHistory";

const PANEL: PanelOut = {
  kind: "table",
  title: null,
  x: null,
  y: null,
  colour: null,
  log_x: false,
  log_y: false,
  label: null,
  fields: {},
  status: null,
  sort: null,
  source: null,
  scale: null,
  shape: null,
};

function entry(data: unknown, panel: Partial<PanelOut> = {}): Hinted {
  return {
    key: "k",
    step: 7,
    data,
    summarised: false,
    fits: true,
    note: null,
    panel: { ...PANEL, ...panel },
  };
}

describe("isHinted", () => {
  it("wants a hint that fits and data that came whole", () => {
    expect(isHinted(entry({}))).toBe(true);
    expect(isHinted({ ...entry({}), fits: false })).toBe(false);
    expect(isHinted({ ...entry({}), summarised: true })).toBe(false);
    expect(isHinted({ ...entry({}), panel: null })).toBe(false);
    expect(isHinted(null)).toBe(false);
  });
});

describe("metricsTable", () => {
  const status: PanelOut["status"] = {
    field: "rate",
    levels: [{ below: 0.01, above: null, word: "dead", tone: "bad" }],
    otherwise: { word: "alive", tone: "good" },
  };

  it("puts the row and its status in front, with the labels of the hint", () => {
    const fields = { rate: { label: "Win rate", precision: 3, unit: "%" } };
    const table = metricsTable(entry({ rate: [0.5, 0, "NaN"] }, { status, fields, source: "w" }));
    expect(table.columns.map(({ title }) => title)).toEqual(["Feature", "Status", "Win rate, %"]);
    expect(table.columns[1]?.cells).toEqual(["Alive", "Dead", null]);
    expect(table.counts.map(({ word, count }) => [word, count])).toEqual([
      ["dead", 1],
      ["alive", 1],
    ]);
    expect(table.rows).toBe(3);
  });

  it("names rows by their label column and clashes with no column of the data", () => {
    const named = metricsTable(entry({ name: ["a", "b"], row: [1, 2] }, { label: "name" }));
    expect(named.columns[0]).toMatchObject({ name: "name", title: "Name" });
    expect(named.columns.map(({ name }) => name)).toEqual(["name", "row"]);
    const numbered = metricsTable(entry({ row: [1, 2], status: [3, 4], rate: [1, 0] }, { status }));
    expect(numbered.columns.map(({ name }) => name)).toEqual(["#", "state", "row", "status", "rate"]);
  });

  it("takes columns of a tensor as they came", () => {
    const values = new Float32Array(100_000);
    const [column] = columnsOf(entry({ rate: new Tensor([100_000], values) }));
    expect(column?.cells).toBe(values);
    expect(column?.numeric).toBe(true);
  });

  it("sorts as the hint wants", () => {
    expect(hintedSort(entry({}, { sort: { field: "rate", descending: false } }))).toEqual({
      column: "rate",
      direction: "ascending",
    });
  });
});

describe("matrices and images", () => {
  it("come plain or under a name, with labels, as lists or tensors", () => {
    expect(
      matrixOf(
        entry([
          [1, 2, 3],
          [4, "NaN", 6],
        ]),
      ),
    ).toMatchObject({ rows: 2, columns: 3, labels: null });
    const labelled = matrixOf(
      entry({
        matrix: [
          [1, 0],
          [0, 1],
        ],
        labels: ["a", 7],
      }),
    );
    expect(labelled?.columnLabels).toEqual(["a", "7"]);
    expect(matrixOf(entry({ matrix: new Tensor([1, 2], [1, 2]) }))?.columns).toBe(2);
    expect(matrixOf(entry({ matrix: [[1], [1, 2]] }))).toBeNull();
  });

  it("tell grey images from coloured ones", () => {
    expect(
      imagesOf(
        entry({
          images: [
            [
              [1, 2],
              [3, 4],
              [5, 6],
            ],
          ],
        }),
      ),
    ).toMatchObject({
      count: 1,
      channels: 1,
      height: 3,
      width: 2,
    });
    expect(imagesOf(entry(new Tensor([2, 3, 4, 5], new Float32Array(120))))).toMatchObject({
      count: 2,
      channels: 3,
      height: 4,
      width: 5,
    });
    expect(imagesOf(entry([1, 2]))).toBeNull();
  });
});

describe("series", () => {
  it("are numbers that grow, or whole lines", () => {
    expect(seriesOf(entry({ a: 1, b: "NaN" }))).toEqual({
      kind: "numbers",
      values: [
        ["a", 1],
        ["b", Number.NaN],
      ],
    });
    expect(seriesOf(entry({ a: [1, 2, 3] })).kind).toBe("lines");
  });

  it("keep what came before, and start over from a step that comes again", () => {
    const history = new SeriesHistory();
    for (const step of [1, 2, 3]) history.push(step, [["a", step]]);
    history.push(2, [["a", 20]]);
    expect(history.tracks.get("a")).toEqual({ step: [1, 2], value: [1, 20] });
  });

  it("stay bounded and keep the newest points exactly", () => {
    const history = new SeriesHistory();
    for (let step = 0; step < 30_000; step += 1) history.push(step, [["a", step]]);
    const track = history.tracks.get("a");
    expect(track?.step.length).toBeLessThanOrEqual(10_000);
    expect(track?.step[0]).toBe(0);
    expect(track?.step.slice(-1000)).toEqual(Array.from({ length: 1000 }, (_, index) => 29_000 + index));
  });
});
