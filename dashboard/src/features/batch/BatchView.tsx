/** The batch as it is drawn: all samples with label and loss, one of them under the cursor. */
import { lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { BatchRange, TileSheet } from "@/api/tiles";
import type { BatchOut } from "@/api/types";
import { markGradient, type Theme } from "@/charts/colors/viridis";
import { downloadBlob, downloadText } from "@/lib/download";
import { formatCount, formatFixed, plural, type TileScale } from "@/lib/format";
import { lookOf } from "@/samples/kinds";
import { MaskLegend } from "@/samples/MaskLegend";
import { MaskTools, useMaskChoice } from "@/samples/MaskTools";
import { SampleLine } from "@/samples/SampleLine";
import { isDrawn, SampleList } from "@/samples/SampleList";
import { sampleColumns } from "@/samples/sampleColumns";
import {
  type DescribeSample,
  MAX_SHOWN,
  type Order,
  type Sample,
  sampleAt,
  samplesOf,
  shownOrder,
} from "@/samples/samples";
import { IconButton, type MenuItem, Panel, Segmented } from "@/ui";
import { csvOf, jsonOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { pngOf } from "@/ui/export/png";
import { INFLUENCE } from "./influenceText";

const FocusedText = lazy(() => import("./FocusedText"));
const SampleDialog = lazy(() => import("./SampleDialog"));

export interface BatchViewProps {
  batch: BatchOut;
  /** The tiles of images; none for other samples. */
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
  /** Positions of the samples that stopped the run. */
  culprits: readonly number[];
  detail: DescribeSample;
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
    culprits,
    stale,
    running,
    theme,
    thinning,
  } = props;
  const [asTable, setAsTable] = useState(false);
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const samples = useMemo(() => samplesOf(batch), [batch]);
  const batchIndices = useMemo(() => shownOrder(samples, order), [samples, order]);
  const drawn = isDrawn({ batch, sheet, asTable });
  const canBeDrawn = isDrawn({ batch, sheet, asTable: false });
  const look = asTable ? "table" : lookOf(batch);
  const [mask, maskControls] = useMaskChoice(batch.mask);
  const [opened, setOpened] = useState<Sample | null>(null);
  const focused = (cursor === null ? null : sampleAt(samples, batchIndices[cursor])) ?? null;
  const focusedId = focused?.id ?? null;
  useEffect(() => onFocusSample(focusedId), [focusedId, onFocusSample]);
  const all = plural(batch.count, "sample");
  const part = thinning || (batch.shown < batch.count ? `${formatCount(batch.shown)} of ${all}` : null);
  const hasGaps = sheet?.hasGaps ?? false;
  const broken =
    hasGaps && culprits.length > 0
      ? `${formatCount(culprits.length)} of ${formatCount(batch.count)} not finite`
      : null;
  // The sentence about the losses counts all samples.
  const whole = batch.loss_fact ?? all;
  const fact = broken ?? (batch.loss_fact && part ? `${whole} · ${part}` : (part ?? whole));
  const open = () => setOpened(focused);
  // Rows are loaded in steps of twice as many, as far as one answer goes.
  const { onRange } = props;
  const more = Math.min(MAX_SHOWN, batch.count, 2 * batch.shown);
  const onEnd = useCallback(() => {
    if (batch.first === 0 && more > batch.shown) onRange({ first: 0, count: more });
  }, [batch.first, batch.shown, more, onRange]);

  const name = `batch-${batch.step + 1}`;
  const exports: (MenuItem | "line")[] = [
    {
      label: "PNG, the grid",
      disabledReason: drawn ? null : "not in a table",
      onSelect: () => void savePng(canvas.current, `${name}.png`),
    },
    {
      label: "JSON, what is shown",
      onSelect: () => downloadText(`${name}.json`, jsonOf(batch), "application/json"),
    },
    {
      label: "CSV, one row per sample",
      onSelect: () =>
        downloadText(`${name}.csv`, csvOf(sampleColumns(batch, samples, { short: false })), "text/csv"),
    },
    "line",
    {
      label: "Show as table",
      checked: look === "table",
      disabledReason: canBeDrawn || look === "texts" || asTable ? null : "these samples are a table",
      onSelect: () => setAsTable(!asTable),
    },
  ];
  const tools = (
    <>
      {hasGaps && (
        <span className="flex items-center gap-1.5 text-label text-t3">
          <span className="size-2 rounded-mark bg-nan" />
          NaN
        </span>
      )}
      {look === "texts" && <RightAndWrong samples={samples.all} />}
      {/* Rows say each loss in figures. */}
      {samples.lossRange && drawn && (
        <LossLegend {...samples.lossRange} theme={theme} isShort={batch.loss_fact !== null} />
      )}
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
      {batch.note && <p className="px-3 pb-1 text-warn">{batch.note}</p>}
      {!samples.lossRange && batch.loss_note && <LossNote text={batch.loss_note} />}
      <SampleList
        {...{ batch, sheet, mask, asTable, samples, batchIndices, order, onOrder, cursor, onCursor }}
        {...{ onRange, onEnd, running, theme, pointedOut, culprits }}
        step={batch.step}
        factor={samples.lossRange?.scale.factor ?? 1}
        onOpen={open}
        canvasRef={(element) => {
          canvas.current = element;
        }}
      />
      {batch.mask && drawn && (
        <div className="flex shrink-0 items-center gap-3 px-3 pt-1">
          <MaskLegend mask={batch.mask} />
          <span className="ml-auto flex items-center gap-2">
            <MaskTools mask={batch.mask} controls={maskControls} />
          </span>
        </div>
      )}
      {look === "texts" && (
        <Suspense fallback={null}>
          <FocusedText step={batch.step} sample={focused} text={textOf(batch, focused)} running={running} />
        </Suspense>
      )}
      {(focused !== null && props.detail(focused, open)) || (
        <SampleLine
          sample={focused}
          count={samples.all.length}
          onOpen={open}
          onBreak={props.onBreak}
          breakReason={props.breakReason}
        />
      )}
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

function textOf(batch: BatchOut, sample: Sample | null): string | null {
  if (sample === null) return null;
  const row = sample.batchIndex - batch.first;
  return batch.texts?.[row] ?? batch.rows?.[row]?.join(" ") ?? null;
}

/** How many predicted classes are the label. */
function RightAndWrong({ samples }: { samples: readonly Sample[] }) {
  const right = samples.filter(({ isRight }) => isRight === true).length;
  const wrong = samples.filter(({ isRight }) => isRight === false).length;
  if (right + wrong === 0) return null;
  return (
    <span className="mr-2 whitespace-nowrap text-t3">
      <span className="font-medium text-ok">{formatCount(right)}</span> right{" "}
      <span className="font-medium text-bad">{formatCount(wrong)}</span> wrong
    </span>
  );
}

interface LossLegendProps {
  low: number;
  high: number;
  scale: TileScale;
  theme: Theme;
  /** Leaves room for a sentence in the header. */
  isShort: boolean;
}

/** What the colours of the loss bars mean, and in what the losses below the tiles are written. */
function LossLegend({ low, high, scale: { factor, unit }, theme, isShort }: LossLegendProps) {
  const decimals = high * factor >= 9.995 ? 1 : 2;
  return (
    <span className="mr-2 flex @max-[420px]:mr-0 items-center gap-2 text-label whitespace-nowrap text-t3">
      Loss {unit} <span>{formatFixed(low * factor, decimals)}</span>
      <span
        className={`h-2 rounded-mark @max-[420px]:w-8 ${isShort ? "w-6" : "w-16"}`}
        style={{ background: markGradient(theme) }}
      />
      <span>{formatFixed(high * factor, decimals)}</span>
    </span>
  );
}

/** Why no losses of samples are shown. */
function LossNote({ text }: { text: string }) {
  return (
    <p className="shrink-0 truncate px-3 pb-1 text-label text-t3" title={text}>
      {text}
    </p>
  );
}
