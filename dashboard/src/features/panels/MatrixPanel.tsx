/** Any matrix with its labels, its scale and its statistics. */
import { useMemo, useRef, useState } from "react";
import { HeatMap } from "@/charts/heatmap/HeatMap";
import { type HeatPreset, presetScale } from "@/charts/heatmap/heatScale";
import type { HeatCell, HeatWindow } from "@/charts/heatmap/heatWindow";
import { formatCount, formatValue } from "@/lib/format";
import { summarise } from "@/lib/statistics";
import { Segmented } from "@/ui";
import { matrixOf } from "./hint";
import { PanelExport, PanelFrame, type PanelFrameProps } from "./PanelFrame";

const PRESETS = [
  { value: "signed", label: "−1…1" },
  { value: "similarity", label: "0…1" },
  { value: "range", label: "Range" },
] as const;

export function MatrixPanel(props: PanelFrameProps) {
  const { entry, theme } = props;
  const container = useRef<HTMLDivElement>(null);
  const matrix = useMemo(() => matrixOf(entry), [entry]);
  const [preset, setPreset] = useState<HeatPreset>(entry.panel.scale ?? "range");
  const [cursor, setCursor] = useState<HeatCell | null>(null);
  const [window, setWindow] = useState<HeatWindow | null>(null);
  const values = matrix?.values ?? EMPTY;
  const scale = useMemo(() => presetScale(preset, values, theme), [preset, values, theme]);
  const statistics = useMemo(() => summarise(values), [values]);
  if (matrix === null)
    return (
      <PanelFrame {...props} fact="" tools={null}>
        <p className="px-3 py-1 text-t3">This data is not a numeric matrix.</p>
      </PanelFrame>
    );
  const at = cursor && cursor.row < matrix.rows && cursor.column < matrix.columns ? cursor : null;
  const name = (index: number, labels: readonly string[] | null) => labels?.[index] ?? String(index);
  const value = at === null ? null : (matrix.values[at.row * matrix.columns + at.column] as number);
  const readout = at && (
    <>
      <span className="font-semibold">
        {name(at.row, matrix.labels)} × {name(at.column, matrix.columnLabels)}
      </span>{" "}
      <span className={Number.isFinite(value) ? "" : "text-bad"}>{formatValue(value)}</span>
    </>
  );
  const tools = (
    <>
      <Segmented label="Colour scale" value={preset} choices={PRESETS} onChange={setPreset} />
      <PanelExport
        entry={entry}
        container={container}
        columns={() =>
          matrixColumns(matrix.rows, matrix.columns, matrix.values, matrix.labels, matrix.columnLabels)
        }
      />
    </>
  );
  const fact = `${formatCount(matrix.rows)} × ${formatCount(matrix.columns)} · step ${formatCount(entry.step)}`;
  return (
    <PanelFrame {...props} fact={fact} tools={tools}>
      <div ref={container} className="flex min-h-0 flex-1 flex-col px-3">
        <HeatMap
          label={`${entry.panel.title ?? entry.key}, ${matrix.rows} by ${matrix.columns}.`}
          {...{ matrix, scale, theme, window, cursor, readout }}
          onCursor={setCursor}
          onWindow={setWindow}
        />
        <div className="flex h-8 shrink-0 items-center gap-4 text-t3">
          <span className="flex items-center gap-2 text-label">
            {formatValue(scale.low, 3)}
            <span className="h-2 w-16 rounded-mark" style={{ background: scale.gradient }} />
            {formatValue(scale.high, 3)}
          </span>
          <span aria-live="polite" className="truncate">
            {readout || (
              <>
                mean <Figure value={statistics.mean} /> std <Figure value={statistics.deviation} /> max{" "}
                <Figure value={statistics.maximum} />
              </>
            )}
          </span>
        </div>
      </div>
    </PanelFrame>
  );
}

const EMPTY: ArrayLike<number> = [];

function Figure({ value }: { value: number }) {
  return <span className="mr-2 font-medium text-text">{formatValue(value, 3)}</span>;
}

/** A matrix as the columns of a file, its labels in front. */
function matrixColumns(
  rows: number,
  columns: number,
  values: ArrayLike<number>,
  labels: readonly string[] | null,
  columnLabels: readonly string[] | null,
) {
  const cells = (column: number) => Array.from({ length: rows }, (_, row) => values[row * columns + column]);
  return [
    { name: "row", cells: Array.from({ length: rows }, (_, row) => labels?.[row] ?? row) },
    ...Array.from({ length: columns }, (_, column) => ({
      name: columnLabels?.[column] ?? String(column),
      cells: cells(column),
    })),
  ];
}
