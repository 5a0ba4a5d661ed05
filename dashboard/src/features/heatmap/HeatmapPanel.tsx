/** How alike the rows of a tensor are: cosines of all pairs, one matrix or two beside each other. */

import { useMemo, useRef, useState } from "react";
import { magnitude, markColour } from "@/charts/colors/viridis";
import type { HeatPreset } from "@/charts/heatmap/heatScale";
import { presetScale } from "@/charts/heatmap/heatScale";
import type { HeatCell, HeatWindow } from "@/charts/heatmap/heatWindow";
import { downloadBlob, downloadText } from "@/lib/download";
import { formatCount, formatFixed, formatValue } from "@/lib/format";
import { NOT_RECORDED } from "@/lib/messages";
import type { RowNames } from "@/lib/rowNames";
import { useTheme } from "@/lib/theme";
import { useUrlChoice, useUrlState } from "@/lib/urlState";
import { hasEnded } from "@/live/commandAvailability";
import { type CosineMatrix, type CosineRequest, type Forces, useCosineMatrix } from "@/live/forces";
import { useRunState, useVerb } from "@/live/hooks";
import { Button, type MenuItem, Panel, Segmented, StepAction } from "@/ui";
import { csvOf, jsonOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { panelToPng } from "@/ui/export/panelToPng";
import { MatrixSide, type MatrixSideProps } from "./MatrixSide";
import { choiceText, inOrderOf, labelOf, readChoice, rowAt, rowName, shortOf } from "./sources";

interface HeatmapPanelProps {
  /** What is known of the rows; null before a step was watched. The weights can be compared without. */
  forces: Forces | null;
  names: RowNames;
  /** A click on a cell selects its row. */
  onSelect: (feature: number) => void;
  /** Watches a row; null if rows cannot be watched. */
  onWatch: ((feature: number) => void) | null;
  stale: string | null;
}

const PRESETS: readonly HeatPreset[] = ["signed", "similarity", "range"];
const PRESET_WORDS: Record<HeatPreset, string> = {
  signed: "Scale −1 to 1",
  similarity: "Scale 0 to 1, similarity",
  range: "Scale to the values",
};

export default function HeatmapPanel({ forces, names, onSelect, onWatch, stale }: HeatmapPanelProps) {
  const theme = useTheme();
  const container = useRef<HTMLDivElement>(null);
  const [order, setOrder] = useUrlState("rows", "id");
  const [preset, setPreset] = useUrlChoice<HeatPreset>("heat", ["signed", "similarity", "range"]);
  const [compared, setCompared] = useUrlChoice("compare", ["on", "off"]);
  const [leftText, setLeft] = useUrlState("left", "");
  const [rightText, setRight] = useUrlState("right", "");
  const [full, setFull] = useState(false);
  const [cursor, setCursor] = useState<HeatCell | null>(null);
  const [window, setWindow] = useState<HeatWindow | null>(null);
  const [height, setHeight] = useState(0);
  const [pinned, setPinned] = useState<HeatCell | null>(null);
  const metric = metricOf(order, forces);
  const left = readChoice(leftText, "weights");
  const right = readChoice(rightText, hasSecondForce(forces) ? "som_targets" : "grad_delta");
  const both = compared === "on";
  const wireOrder = metric !== null ? `metric:${metric}` : order === "cluster" ? "cluster" : "id";
  const tensor = forces?.tensor ?? null;
  const ask = (choice: typeof left, by: string): CosineRequest => ({
    source: choice.source,
    tensor: choice.tensor ?? tensor,
    order: by,
    full,
  });
  const first = useCosineMatrix(useSame(ask(left, wireOrder)));
  // A cluster order is the left matrix's own, and the right one follows it.
  const follows = order === "cluster" && !(first.data?.averaged ?? false);
  const second = useCosineMatrix(useSame(both ? ask(right, follows ? "id" : wireOrder) : null));
  const secondMatrix = useMemo(() => {
    const [a, b] = [first.data, second.data];
    if (!follows || a === null || b === null || b.order !== "id" || a.rows !== b.rows) return b;
    return inOrderOf(b, a.permutation);
  }, [first.data, second.data, follows]);
  const strip = useStrip(first.data, forces, metric ?? names.main);
  const share = { preset, theme, cursor, window, onWindow: setWindow };
  const scale = useMemo(
    () => presetScale(preset, first.data?.values ?? [], theme),
    [preset, first.data, theme],
  );
  if (forces === null && first.data === null) return <NoMatrix error={first.error?.message ?? null} />;
  const pick = (cell: HeatCell) => {
    const row = first.data && rowAt(first.data, cell.row);
    setPinned(cell);
    if (row !== null) onSelect(row);
  };
  const shown = [first.data, both ? secondMatrix : null].filter((matrix) => matrix !== null);
  const readout = cursor && <Readout matrices={shown} cell={cursor} />;
  const common: Omit<MatrixSideProps, "side" | "choice" | "onChoice" | "matrix" | "error" | "strip"> = {
    ...share,
    tensors: forces?.tensors ?? [],
    tensor: tensor ?? first.data?.tensor ?? "",
    onCursor: setCursor,
    onPick: pick,
    readout,
    onFull: () => setFull(true),
  };
  const tools = (
    <>
      <span className="text-label text-t3 @max-[640px]:hidden">Order</span>
      <Segmented
        label="Order of the rows"
        value={metric === null ? (order === "cluster" ? "cluster" : "id") : "metric"}
        choices={orderChoices(forces, names, metric)}
        onChange={(next) =>
          setOrder(next === "metric" ? `metric:${metric ?? defaultMetric(forces, names)}` : next)
        }
      />
      <Button
        small
        icon="columns"
        aria-pressed={both}
        className={both ? "bg-s3!" : ""}
        tooltip="Two matrices side by side"
        onClick={() => setCompared(both ? "off" : "on")}
      >
        Compare
      </Button>
      <ExportMenu
        subject="similarity"
        items={[
          ...exportsOf(shown, () => panelToPng(container.current)),
          "line",
          ...PRESETS.map((one) => ({
            label: PRESET_WORDS[one],
            checked: one === preset,
            onSelect: () => setPreset(one),
          })),
          "line",
          ...metricItems(forces, names, metric, setOrder),
          ...(full ? [{ label: "Block means above 512 rows", onSelect: () => setFull(false) }] : []),
        ]}
      />
    </>
  );
  return (
    <Panel
      title="Cosine similarity"
      fact={pinned && first.data && <Pinned matrix={first.data} cell={pinned} onWatch={onWatch} />}
      stale={stale}
      tools={tools}
      className="h-full"
    >
      <div ref={container} className="flex min-h-0 flex-1 gap-2 pr-1 pb-1 pl-2">
        <MatrixSide
          {...common}
          side="left"
          choice={left}
          onChoice={(choice) => setLeft(choiceText(choice))}
          matrix={first.data}
          error={first.error?.message ?? null}
          strip={strip}
          onHeight={setHeight}
        />
        {both && (
          <MatrixSide
            {...common}
            side="right"
            choice={right}
            onChoice={(choice) => setRight(choiceText(choice))}
            matrix={secondMatrix}
            error={second.error?.message ?? null}
            strip={secondMatrix?.rows === first.data?.rows ? strip : null}
          />
        )}
        <ScaleBar height={height} low={scale.low} high={scale.high} gradient={scale.gradient} />
      </div>
    </Panel>
  );
}

/** Before the first step there is nothing to compare, and what to do about it. */
function NoMatrix({ error }: { error: string | null }) {
  const step = useVerb("step");
  const ended = useRunState(hasEnded) ?? false;
  const coming = useRunState((run) => run.step_data_step !== null) ?? true;
  if (ended && error === null && coming)
    return <Panel title="Cosine similarity" className="h-full" state={{ kind: "loading" }} />;
  if (ended) {
    const text = error ?? NOT_RECORDED;
    return <Panel title="Cosine similarity" className="h-full" state={{ kind: "unavailable", text }} />;
  }
  const action = <StepAction verb={step} onStep={() => void step.run({ n: 1 })} />;
  return (
    <Panel
      title="Cosine similarity"
      className="h-full"
      state={{ kind: "empty", title: "No matrix yet", text: error ?? "Take one step to draw it.", action }}
    />
  );
}

/** The same request as long as nothing in it changed. */
function useSame(request: CosineRequest | null): CosineRequest | null {
  const text = JSON.stringify(request);
  return useMemo(() => JSON.parse(text) as CosineRequest | null, [text]);
}

function hasSecondForce(forces: Forces | null): boolean {
  return forces?.columns.get("som_norm")?.some((value) => value !== 0) ?? false;
}

/** Metrics one can order by. */
function metricsOf(forces: Forces): string[] {
  return [...forces.columns.keys()].filter((name) => name !== "id");
}

function metricOf(order: string, forces: Forces | null): string | null {
  const name = order.startsWith("metric:") ? order.slice("metric:".length) : null;
  return name !== null && forces?.columns.has(name) ? name : null;
}

function defaultMetric(forces: Forces | null, { main }: RowNames): string {
  return main !== null && (forces === null || forces.columns.has(main)) ? main : "grad_magnitude";
}

function orderChoices(forces: Forces | null, names: RowNames, metric: string | null) {
  return [
    { value: "id" as const, label: "Id" },
    ...(forces
      ? [{ value: "metric" as const, label: names.labelOf(metric ?? defaultMetric(forces, names)) }]
      : []),
    { value: "cluster" as const, label: "Cluster" },
  ];
}

function metricItems(
  forces: Forces | null,
  names: RowNames,
  metric: string | null,
  setOrder: (order: string) => void,
): MenuItem[] {
  return (forces ? metricsOf(forces) : []).map((name) => ({
    label: `Order by ${names.labelOf(name)}`,
    checked: name === metric,
    onSelect: () => setOrder(`metric:${name}`),
  }));
}

/** A colour for each shown row by a metric. */
function useStrip(
  matrix: CosineMatrix | null,
  forces: Forces | null,
  metric: string | null,
): string[] | null {
  const theme = useTheme();
  return useMemo(() => {
    const column = metric === null ? undefined : forces?.columns.get(metric);
    if (!matrix || !column || matrix.averaged || column.length !== matrix.rows) return null;
    const finite = column.filter(Number.isFinite);
    const low = finite.reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY);
    const high = finite.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY);
    return matrix.permutation.map((row) =>
      markColour(magnitude(column[row] ?? Number.NaN, Math.min(low, 0), high), theme),
    );
  }, [matrix, forces, metric, theme]);
}

/** What the crosshair is on, in each matrix. */
function Readout({ matrices, cell }: { matrices: readonly CosineMatrix[]; cell: HeatCell }) {
  const [first] = matrices;
  if (first === undefined || cell.row >= first.side || cell.column >= first.side) return null;
  return (
    <span aria-live="polite">
      <span className="block font-semibold">
        {rowName(first, cell.row)} × {rowName(first, cell.column)}
      </span>
      {matrices.map((matrix) => (
        <span key={matrix.source + matrix.tensor} className="block text-t2">
          {shortOf(matrix.source)}{" "}
          <span className="font-medium text-text">
            {formatFixed(matrix.values[cell.row * matrix.side + cell.column] ?? Number.NaN, 3)}
          </span>
        </span>
      ))}
    </span>
  );
}

interface PinnedProps {
  matrix: CosineMatrix;
  cell: HeatCell;
  onWatch: ((feature: number) => void) | null;
}

/** The cell that was clicked; a click on one of its ids follows that row. */
function Pinned({ matrix, cell, onWatch }: PinnedProps) {
  const ids = [rowAt(matrix, cell.row), rowAt(matrix, cell.column)];
  const value = matrix.values[cell.row * matrix.side + cell.column];
  if (ids[0] == null || ids[1] == null || value === undefined) return null;
  const [row, column] = ids.map((id) => (
    <button
      type="button"
      key={id}
      title={`Watch ${id}`}
      aria-label={`Watch ${id}`}
      disabled={onWatch === null}
      onClick={() => id != null && onWatch?.(id)}
      className="font-medium text-accent hover:underline"
    >
      {id}
    </button>
  ));
  return (
    <span>
      {row} × {column} {formatFixed(value, 3)}
    </span>
  );
}

/** 1, −1, 0.5: no more figures than it needs. */
function shortNumber(value: number): string {
  return Number.isInteger(value) ? formatCount(value) : formatValue(value, 2);
}

/** The scale upright beside the matrices, its ends and middle labelled. */
function ScaleBar({
  height,
  low,
  high,
  gradient,
}: {
  height: number;
  low: number;
  high: number;
  gradient: string;
}) {
  return (
    <div className="mt-7 flex w-7 shrink-0 gap-1 text-label text-t3" style={{ height }}>
      <span className="w-2 rounded-mark" style={{ background: gradient.replace("to right", "to top") }} />
      <span className="flex flex-col justify-between">
        <span>{shortNumber(high)}</span>
        <span>{shortNumber((low + high) / 2)}</span>
        <span>{shortNumber(low)}</span>
      </span>
    </div>
  );
}

function exportsOf(matrices: readonly CosineMatrix[], png: () => Promise<Blob | null>): MenuItem[] {
  const [first] = matrices;
  const name = `similarity-${first?.step ?? 0}`;
  return [
    { label: "PNG", onSelect: () => void png().then((blob) => blob && downloadBlob(`${name}.png`, blob)) },
    ...matrices.map((matrix) => ({
      label: `CSV, ${labelOf(matrix.source)}`,
      onSelect: () => downloadText(`${name}-${matrix.source}.csv`, csvOf(matrixColumns(matrix)), "text/csv"),
    })),
    {
      label: "JSON",
      onSelect: () => {
        const body = matrices.map(({ values, side, ...about }) => ({
          ...about,
          matrix: Array.from({ length: side }, (_, row) =>
            Array.from(values.subarray(row * side, (row + 1) * side)),
          ),
        }));
        downloadText(`${name}.json`, jsonOf(body), "application/json");
      },
    },
  ];
}

function matrixColumns(matrix: CosineMatrix) {
  const { side, values } = matrix;
  const names = Array.from({ length: side }, (_, index) => rowName(matrix, index));
  return [
    { name: "row", cells: names },
    ...names.map((name, column) => ({
      name,
      cells: Array.from({ length: side }, (_, row) => values[row * side + column]),
    })),
  ];
}
