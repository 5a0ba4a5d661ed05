/** Texts as rows, one line each: text, target, prediction, loss. */
import { useMemo } from "react";
import type { BatchOut } from "@/api/types";
import { markColour, type Theme } from "@/charts/colors/viridis";
import { formatValue, NONE } from "@/lib/format";
import { sampleColumns } from "@/samples/sampleColumns";
import type { Sample, Samples } from "@/samples/samples";
import { Icon } from "@/ui/Icon";
import type { TableColumn } from "@/ui/table/DataTable";
import { type SampleRowsProps, SortedRows } from "./SampleTable";

interface TextRowsProps extends SampleRowsProps {
  theme: Theme;
}

export default function TextRows({ batch, samples, theme, ...rows }: TextRowsProps) {
  const columns = useMemo(() => textColumns(batch, samples, theme), [batch, samples, theme]);
  return <SortedRows columns={columns} first={samples.first} {...rows} />;
}

/** The columns of the table with the text wide, the answer marked, and a bar for the loss. */
export function textColumns(batch: BatchOut, samples: Samples, theme: Theme): TableColumn[] {
  const { all } = samples;
  const columns = sampleColumns(batch, samples, { short: true });
  const main = batch.texts === null ? "tokens" : "text";
  // The numbers of tokens that are shown as text are in the export.
  const shown = columns.filter(({ name }) => name === main || name !== "tokens");
  return mainFirst(shown, main).map((column) => {
    const sampleOf = (row: number) => all[row];
    switch (column.name) {
      case "text":
        return {
          ...column,
          title: "Text",
          ...wide(240, 5),
          titleOf: (row) => String(column.cells[row] ?? ""),
        };
      case "target":
        return {
          ...column,
          title: "Target",
          ...wide(72, 1.2),
          titleOf: (row) => String(column.cells[row] ?? ""),
        };
      case "prediction":
        return {
          ...column,
          ...wide(84, 1.2),
          titleOf: (row) => String(column.cells[row] ?? ""),
          render: (row) => <Prediction sample={sampleOf(row)} />,
        };
      case "loss":
        return {
          ...column,
          track: { width: "104px", least: 104 },
          render: (row) => <LossBar sample={sampleOf(row)} theme={theme} text={lossText(column, row)} />,
        };
      case "sample":
        return { ...column, track: { width: "60px", least: 60 }, look: "font-mono" };
      default:
        return column;
    }
  });
}

const wide = (least: number, share: number) => ({ track: { width: `minmax(${least}px,${share}fr)`, least } });

/** What is read comes right after the id. */
function mainFirst(columns: TableColumn[], main: string): TableColumn[] {
  const [id, ...rest] = columns;
  const text = rest.find(({ name }) => name === main);
  return [id, text, ...rest.filter((column) => column !== text)].filter((column) => column !== undefined);
}

function lossText(column: TableColumn, row: number): string {
  const value = column.cells[row];
  return formatValue(typeof value === "number" ? value : null, 3);
}

/** What the model says: right or wrong by glyph and colour, where classes are compared. */
function Prediction({ sample }: { sample: Sample | undefined }) {
  if (!sample?.prediction) return <>{NONE}</>;
  if (sample.isRight === null) return <>{sample.prediction}</>;
  return (
    <span className={`inline-flex items-center gap-1 font-medium ${sample.isRight ? "text-ok" : "text-bad"}`}>
      <Icon name={sample.isRight ? "check" : "close"} size={12} />
      <span className="sr-only">{sample.isRight ? "right: " : "wrong: "}</span>
      {sample.prediction}
    </span>
  );
}

function LossBar({ sample, theme, text }: { sample: Sample | undefined; theme: Theme; text: string }) {
  if (!sample || sample.loss === null) return <>{NONE}</>;
  const isOdd = !Number.isFinite(sample.loss);
  const width = `${Math.max(4, Math.round(sample.magnitude * 100))}%`;
  return (
    <span className="flex items-center gap-2">
      <span className="h-2 w-10 shrink-0">
        {!isOdd && (
          <span
            className="block h-2 rounded-mark"
            style={{ width, background: markColour(sample.magnitude, theme) }}
          />
        )}
      </span>
      <span className={`ml-auto ${isOdd || sample.isOutlier ? "font-medium text-bad" : ""}`}>{text}</span>
    </span>
  );
}
