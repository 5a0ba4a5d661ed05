/** The batch as it is drawn: all samples with label and loss, one of them under the cursor. */
import { lazy, Suspense, useEffect, useMemo, useRef, useState } from "react";
import type { BatchRange, TileSheet } from "@/api/tiles";
import { type BatchOut, fromWire } from "@/api/types";
import { markGradient, type Theme } from "@/charts/colors/viridis";
import { downloadBlob, downloadText } from "@/lib/download";
import { formatCount, formatFixed, plural, type TileScale } from "@/lib/format";
import { IconButton, type MenuItem, Panel, Segmented } from "@/ui";
import { csvOf, jsonOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { pngOf } from "@/ui/export/png";
import type { Sort, TableColumn } from "@/ui/table/DataTable";
import { LazyDataTable } from "@/ui/table/LazyDataTable";
import { SampleLine } from "./SampleLine";
import { INFLUENCE, type Order, type Sample, type Samples, sampleAt, samplesOf, shownOrder } from "./samples";
import { TileGrid } from "./TileGrid";

const SampleDialog = lazy(() => import("./SampleDialog"));

export interface BatchViewProps {
  batch: BatchOut;
  /** The tiles; none for samples that are not images. */
  sheet: TileSheet | null;
  /** One of how many steps is shown, and how many samples; null where nothing is left out. */
  thinning: string | null;
  /** Other samples came into view. */
  onRange: (range: BatchRange) => void;
  order: Order;
  onOrder: (order: Order) => void;
  /** Index in the grid of the focused sample. */
  cursor: number | null;
  onCursor: (cursor: number | null) => void;
  /** The sample under the cursor is another one now: the cursor moved, or the batch did. */
  onFocusSample: (sampleId: number | null) => void;
  /** Ids to ring, for example the evidence of a breakpoint. */
  pointedOut: ReadonlySet<number>;
  onBreak: (sampleId: number) => void;
  breakReason: string | null;
  /** Asks which samples moved which; null where the run cannot tell. */
  influence: { busy: boolean; disabledReason: string | null; onAsk: () => void } | null;
  stale: string | null;
  running: boolean;
  theme: Theme;
}

const ORDERS = [
  { value: "loader", label: "Loader order" },
  { value: "loss", label: "By loss" },
] as const;

export default function BatchView(props: BatchViewProps) {
  const {
    batch,
    sheet,
    order,
    onOrder,
    cursor,
    onCursor,
    onFocusSample,
    pointedOut,
    stale,
    running,
    theme,
    thinning,
  } = props;
  const [asTable, setAsTable] = useState(false);
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const samples = useMemo(() => samplesOf(batch), [batch]);
  const batchIndices = useMemo(() => shownOrder(samples, order), [samples, order]);
  const columns = useMemo(() => sampleColumns(batch, samples), [batch, samples]);
  const table = asTable || sheet === null;
  const [opened, setOpened] = useState<Sample | null>(null);
  const focused = (cursor === null ? null : sampleAt(samples, batchIndices[cursor])) ?? null;
  const focusedId = focused?.id ?? null;
  useEffect(() => onFocusSample(focusedId), [focusedId, onFocusSample]);
  const all = plural(batch.count, "sample");
  const counted = thinning || (batch.shown < batch.count ? `${formatCount(batch.shown)} of ${all}` : all);
  const fact = batch.loss_fact ? `${batch.loss_fact} · ${counted}` : counted;
  const open = () => setOpened(focused);

  const name = `batch-${batch.step + 1}`;
  const exports: (MenuItem | "line")[] = [
    {
      label: "PNG, the grid",
      disabledReason: table ? "not in a table" : null,
      onSelect: () => void savePng(canvas.current, `${name}.png`),
    },
    {
      label: "JSON, all values",
      onSelect: () => downloadText(`${name}.json`, jsonOf(batch), "application/json"),
    },
    {
      label: "CSV, one row per sample",
      onSelect: () => downloadText(`${name}.csv`, csvOf(columns), "text/csv"),
    },
    "line",
    {
      label: "Show as table",
      checked: table,
      disabledReason: sheet === null ? "no images" : null,
      onSelect: () => setAsTable(!asTable),
    },
  ];
  const tools = (
    <>
      {samples.lossRange && <LossLegend {...samples.lossRange} theme={theme} />}
      {!samples.lossRange && batch.loss_note && <LossNote text={batch.loss_note} />}
      {samples.lossRange && (
        <Segmented label="Order of the samples" value={order} choices={ORDERS} onChange={onOrder} />
      )}
      {props.influence && (
        <IconButton
          icon={props.influence.busy ? "spinner" : "influence"}
          label={INFLUENCE}
          disabledReason={props.influence.busy ? "Computing…" : props.influence.disabledReason}
          onClick={props.influence.onAsk}
        />
      )}
      <ExportMenu subject="batch" items={exports} />
    </>
  );

  return (
    <Panel title="Batch" fact={fact} stale={stale} tools={tools} className="h-full">
      {table || sheet === null ? (
        <SampleTable
          {...{ columns, batchIndices, order, onOrder, running }}
          first={samples.first}
          cursor={cursor}
          onCursor={onCursor}
        />
      ) : (
        <TileGrid
          {...{
            step: batch.step,
            sheet,
            samples,
            factor: samples.lossRange?.scale.factor ?? 1,
            order: batchIndices,
            cursor,
            pointedOut,
            theme,
          }}
          onCursor={onCursor}
          onOpen={open}
          onRange={props.onRange}
          canvasRef={(element) => {
            canvas.current = element;
          }}
        />
      )}
      <SampleLine
        sample={focused}
        count={samples.all.length}
        onOpen={open}
        onBreak={props.onBreak}
        breakReason={props.breakReason}
      />
      {opened !== null && (
        <Suspense fallback={null}>
          <SampleDialog
            step={batch.step}
            index={opened.batchIndex}
            id={opened.id}
            onClose={() => setOpened(null)}
          />
        </Suspense>
      )}
    </Panel>
  );
}

async function savePng(canvas: HTMLCanvasElement | null, name: string): Promise<void> {
  const blob = canvas && (await pngOf(canvas));
  if (blob) downloadBlob(name, blob);
}

interface SampleTableProps {
  columns: ReturnType<typeof sampleColumns>;
  /** Index in the batch of the first row. */
  first: number;
  batchIndices: number[];
  order: Order;
  onOrder: (order: Order) => void;
  cursor: number | null;
  onCursor: (cursor: number | null) => void;
  running: boolean;
}

function SampleTable(props: SampleTableProps) {
  const { columns, first, batchIndices, order, onOrder, cursor, onCursor, running } = props;
  const [sort, setSort] = useState<Sort | null>(null);
  const shown: Sort | null = sort ?? (order === "loss" ? { column: "loss", direction: "descending" } : null);
  return (
    <LazyDataTable
      label="Samples of the batch"
      columns={columns}
      sort={shown}
      onSort={(next) => {
        setSort(next);
        if (next.column !== "loss") onOrder("loader");
      }}
      selected={cursor === null ? null : (batchIndices[cursor] ?? first) - first}
      onSelect={(row) => onCursor(batchIndices.indexOf(row + first))}
      running={running}
    />
  );
}

interface LossLegendProps {
  low: number;
  high: number;
  scale: TileScale;
  theme: Theme;
}

/** What the colours of the loss bars mean, and in what the losses below the tiles are written. */
function LossLegend({ low, high, scale: { factor, unit }, theme }: LossLegendProps) {
  const decimals = high * factor >= 9.995 ? 1 : 2;
  return (
    <span className="mr-2 flex @max-[420px]:mr-0 items-center gap-2 text-label whitespace-nowrap text-t3">
      Loss {unit} <span>{formatFixed(low * factor, decimals)}</span>
      <span className="h-2 w-16 rounded-mark @max-[420px]:w-8" style={{ background: markGradient(theme) }} />
      <span>{formatFixed(high * factor, decimals)}</span>
    </span>
  );
}

/** Why no losses of samples are shown, in the place of their legend. */
function LossNote({ text }: { text: string }) {
  return (
    <span className="min-w-0 truncate text-label text-t3" title={text}>
      {text}
    </span>
  );
}

/** Values of a sample beyond these stay out of the table; the export has them all. */
const SHOWN_VALUES = 12;

/** The batch as a table: for samples that are not images, for the table view, and for export. */
function sampleColumns(batch: BatchOut, { all, lossRange }: Samples): TableColumn[] {
  const columns: TableColumn[] = [{ name: "sample", cells: all.map(({ id }) => id), numeric: true }];
  if (batch.labels) columns.push({ name: "label", cells: all.map(({ label }) => label), numeric: false });
  if (lossRange) columns.push({ name: "loss", cells: all.map(({ loss }) => loss), numeric: true });
  const width = Math.min(SHOWN_VALUES, batch.rows?.[0]?.length ?? 0);
  for (let index = 0; index < width; index += 1) {
    const values = all.map((_, row) => fromWire(batch.rows?.[row]?.[index]));
    // A token is a name, not a quantity: it gets no thousands separator.
    const cells =
      batch.kind === "tokens" ? values.map((value) => (value === null ? null : String(value))) : values;
    columns.push({ name: `value ${index}`, title: String(index), cells, numeric: true });
  }
  return columns;
}
