/** Step data as its panel hint wants it: columns, a matrix, images or series. Lists and tensors look the same from here. */
import { Tensor } from "@/api/tensors";
import type { PanelOut, StepDataOut } from "@/api/types";
import type { HeatMatrix } from "@/charts/heatmap/HeatMap";
import type { TableColumn } from "@/ui/table/DataTable";
import type { Cell } from "@/ui/table/sortCells";
import { readCell } from "./dataShape";

export type Hinted = StepDataOut & { panel: PanelOut };

/** Whether an entry says how it wants to be shown, and is what it says. */
export function isHinted(entry: StepDataOut | null): entry is Hinted {
  return entry?.panel != null && entry.fits && !entry.summarised;
}

function mapping(data: unknown): Record<string, unknown> {
  return data !== null && typeof data === "object" && !Array.isArray(data) && !(data instanceof Tensor)
    ? (data as Record<string, unknown>)
    : {};
}

/** A column of cells, from a list or from a tensor of one dimension; null for anything else. */
function cellsOf(value: unknown): ArrayLike<Cell> | null {
  if (value instanceof Tensor) return value.shape.length === 1 ? value.values : null;
  return Array.isArray(value) ? value.map(readCell) : null;
}

function isNumeric(cells: ArrayLike<Cell>): boolean {
  if (ArrayBuffer.isView(cells)) return true;
  return Array.from(cells).every((cell) => cell === null || typeof cell === "number");
}

/** The columns of a table or a scatter with the labels and figures of the hint. */
export function columnsOf({ data, panel }: Hinted): TableColumn[] {
  return Object.entries(mapping(data)).flatMap(([name, value]) => {
    const cells = cellsOf(value);
    if (cells === null) return [];
    const { label, precision, unit } = panel.fields[name] ?? { label: null, precision: null, unit: null };
    const title = `${label ?? name}${unit ? `, ${unit}` : ""}`;
    return [{ name, title, cells, numeric: isNumeric(cells), significant: precision ?? undefined }];
  });
}

/** A column's numbers; NaN where it holds something else. */
export function numbersOf(column: TableColumn | undefined): ArrayLike<number> {
  if (column === undefined) return [];
  if (ArrayBuffer.isView(column.cells)) return column.cells as ArrayLike<number>;
  return Array.from(column.cells, (cell) => (typeof cell === "number" ? cell : Number.NaN));
}

export interface LabelledMatrix extends HeatMatrix {
  labels: readonly string[] | null;
  columnLabels: readonly string[] | null;
}

function labelsOf(value: unknown): readonly string[] | null {
  return Array.isArray(value) ? value.map(String) : null;
}

/** Nested lists or a tensor as one run of numbers with its shape; null when it is ragged or not numeric. */
export function tensorOf(value: unknown): { shape: readonly number[]; values: ArrayLike<number> } | null {
  if (value instanceof Tensor) return value;
  const shape: number[] = [];
  for (let level: unknown = value; Array.isArray(level); level = level[0]) shape.push(level.length);
  if (!shape.length) return null;
  const flat = (value as unknown[]).flat(shape.length - 1) as unknown[];
  if (flat.length !== shape.reduce((product, side) => product * side, 1)) return null;
  const values = Float64Array.from(flat, (cell) => {
    const read = readCell(cell);
    return typeof read === "number" ? read : Number.NaN;
  });
  return { shape, values };
}

export function matrixOf({ data }: Hinted): LabelledMatrix | null {
  const held = mapping(data);
  const tensor = tensorOf("matrix" in held ? held.matrix : data);
  if (tensor === null || tensor.shape.length !== 2) return null;
  const [rows, columns] = tensor.shape as [number, number];
  return {
    rows,
    columns,
    values: tensor.values,
    labels: labelsOf(held.labels),
    columnLabels: labelsOf(held.column_labels) ?? (rows === columns ? labelsOf(held.labels) : null),
  };
}

export interface ImageSet {
  count: number;
  /** 1 for grey or signed values, 3 for colours. */
  channels: number;
  height: number;
  width: number;
  values: ArrayLike<number>;
  labels: readonly string[] | null;
}

export function imagesOf({ data }: Hinted): ImageSet | null {
  const held = mapping(data);
  const tensor = tensorOf("images" in held ? held.images : data);
  if (tensor === null || tensor.shape.length < 3 || tensor.shape.length > 4) return null;
  const [count, ...rest] = tensor.shape as [number, ...number[]];
  const [channels, height, width] = (rest.length === 2 ? [1, ...rest] : rest) as [number, number, number];
  return { count, channels, height, width, values: tensor.values, labels: labelsOf(held.labels) };
}

/** Either one number a name, which grow into lines step by step, or whole lines. */
export type SeriesData =
  | { kind: "numbers"; values: readonly (readonly [name: string, value: number])[] }
  | { kind: "lines"; lines: readonly (readonly [name: string, values: ArrayLike<number>])[] };

export function seriesOf({ data }: Hinted): SeriesData {
  const entries = Object.entries(mapping(data));
  const numbers = entries.flatMap(([name, value]) => {
    const cell = Array.isArray(value) && value.length === 1 ? readCell(value[0]) : readCell(value);
    return typeof cell === "number" ? [[name, cell] as const] : [];
  });
  if (numbers.length === entries.length) return { kind: "numbers", values: numbers };
  const lines = entries.flatMap(([name, value]) => {
    const tensor = tensorOf(value);
    return tensor?.shape.length === 1 ? [[name, tensor.values] as const] : [];
  });
  return { kind: "lines", lines };
}
