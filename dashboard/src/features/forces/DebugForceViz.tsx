/** Forces: the gradient against the other force on every row, and one row's step in four pictures. */

import { type ReactNode, useRef, useState } from "react";
import { markGradient } from "@/charts/colors/viridis";
import { downloadBlob, downloadText } from "@/lib/download";
import { formatCount, formatValue } from "@/lib/format";
import { CAPTURED_IN_VIEW, NOT_RECORDED, NOTHING_CAPTURED } from "@/lib/messages";
import type { RowNames } from "@/lib/rowNames";
import type { StatusRule } from "@/lib/rowStatus";
import { summarise } from "@/lib/statistics";
import { useTheme } from "@/lib/theme";
import { hasEnded } from "@/live/commandAvailability";
import type { Forces } from "@/live/forces";
import { useForceDetail } from "@/live/forces";
import { useRunState, useVerb } from "@/live/hooks";
import { IconButton, Menu, type MenuItem, Panel, StepAction } from "@/ui";
import { csvOf, jsonOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { panelToPng } from "@/ui/export/panelToPng";
import type { Cell } from "@/ui/table/sortCells";
import { type ForceWords, TwoForceView, verdictWord } from "./TwoForceView";

export interface DebugForceVizProps {
  forces: Forces | null;
  names: RowNames;
  error: string | null;
  /** The tensor that was chosen; null for the run's own choice. */
  chosen: string | null;
  onTensor: (tensor: string) => void;
  selected: number | null;
  onSelect: (feature: number) => void;
  watched: readonly number[];
  onWatch: ((feature: number) => void) | null;
  rule: StatusRule | null;
  shape: readonly number[] | null;
  stale: string | null;
}

export default function DebugForceViz(props: DebugForceVizProps) {
  const { forces, names, error, selected, stale } = props;
  const theme = useTheme();
  const container = useRef<HTMLDivElement>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const shown = forces !== null && selected !== null && selected < forces.rows ? selected : null;
  const detail = useForceDetail(forces?.tensor ?? null, shown);
  if (forces === null) return <NoForces error={error} />;
  if (error !== null && props.chosen !== null && props.chosen !== forces.tensor) {
    // The forces of another tensor, even dimmed, would be mistaken for its own.
    const menu = <TensorMenu {...forces} tensor={props.chosen} onTensor={props.onTensor} />;
    return <NoForces error={error} fact={menu} />;
  }
  const words: ForceWords = {
    first: names.labelOf("grad_magnitude"),
    second: names.labelOf("som_magnitude"),
  };
  const judged = judgedColumn(forces, names);
  const tools = (
    <>
      {judged && (
        <span className="flex items-center gap-2 whitespace-nowrap text-label text-t3">
          {judged.label} {limitText(judged.low)}
          <span className="h-2 w-16 rounded-mark" style={{ background: markGradient(theme) }} />
          {limitText(judged.high)}
        </span>
      )}
      <ExportMenu
        subject="forces"
        items={exportsOf(forces, detail.data, () => panelToPng(container.current))}
      />
    </>
  );
  return (
    <Panel
      title="Forces"
      fact={
        <span className="flex items-center gap-2">
          <TensorMenu {...forces} onTensor={props.onTensor} />
          <span className="truncate" aria-live={hovered === null ? undefined : "polite"}>
            {hovered === null ? summaryOf(forces) : pointText(forces, names, hovered)}
          </span>
        </span>
      }
      stale={stale}
      tools={tools}
      className="h-full"
    >
      {forces.note && <p className="px-3 pb-1 text-warn">{forces.note}</p>}
      <div ref={container} className="flex min-h-0 flex-1">
        <TwoForceView
          {...props}
          forces={forces}
          words={words}
          colour={judged?.units ?? null}
          detail={shown === null ? null : detail.data}
          detailError={detail.error?.message ?? null}
          onHover={setHovered}
          theme={theme}
        />
      </div>
    </Panel>
  );
}

/** "33 oppose, 31 agree", with the neutral ones where there are any. */
export function summaryOf({ agree, fight, neutral, tensor }: Forces): string {
  if (agree + fight === 0) return `${formatCount(neutral)} neutral: only one force acts on ${tensor}`;
  const parts = [`${formatCount(fight)} oppose`, `${formatCount(agree)} agree`];
  if (neutral > 0) parts.push(`${formatCount(neutral)} neutral`);
  return parts.join(", ");
}

function pointText({ columns, verdicts }: Forces, { labelOf, main }: RowNames, index: number): string {
  const shown = ["grad_magnitude", "som_magnitude", ...(main === null ? [] : [main])];
  const values = shown
    .filter((name) => columns.has(name))
    .map((name) => `${labelOf(name)} ${formatValue(columns.get(name)?.[index], 3)}`);
  return `${index}: ${[...values, verdictWord(verdicts[index] ?? null)].filter(Boolean).join(", ")}`;
}

interface JudgedColumn {
  label: string;
  low: number;
  high: number;
  /** Each value between low and high, 0…1. */
  units: Float64Array;
}

const limitText = (value: number) => formatValue(value, Number.isInteger(value) ? 1 : 3);

/** The column by which the run judges its rows, for the colours; null where it names none. */
function judgedColumn({ columns }: Forces, { labelOf, main }: RowNames): JudgedColumn | null {
  const values = main === null ? undefined : columns.get(main);
  if (main === null || values === undefined) return null;
  const { minimum, maximum, finite } = summarise(values);
  const isShare = finite === 0 || (minimum >= 0 && maximum <= 1);
  const [low, high] = isShare ? [0, 1] : [minimum, maximum];
  const units = values.map((value) => (high > low ? (value - low) / (high - low) : 0.5));
  return { label: labelOf(main), low, high, units };
}

function TensorMenu({ tensor, tensors, onTensor }: Forces & { onTensor: (tensor: string) => void }) {
  if (tensors.length < 2) return null;
  return (
    <Menu
      align="start"
      heading="Rows of"
      trigger={<IconButton icon="chevronDown" label="Choose a tensor" className="-mx-1" />}
      items={tensors.map((name) => ({
        label: name,
        checked: name === tensor,
        onSelect: () => onTensor(name),
      }))}
    />
  );
}

function NoForces({ error, fact }: { error: string | null; fact?: ReactNode }) {
  const step = useVerb("step");
  const ended = useRunState(hasEnded) ?? false;
  const coming = useRunState((run) => run.step_data_step !== null) ?? true;
  if (ended && error === null && coming)
    return <Panel title="Forces" fact={fact} className="h-full" state={{ kind: "loading" }} />;
  if (ended) {
    const message = error ?? NOT_RECORDED;
    return (
      <Panel title="Forces" fact={fact} className="h-full" state={{ kind: "unavailable", text: message }} />
    );
  }
  const action = <StepAction verb={step} onStep={() => void step.run({ n: 1 })} />;
  const text = error ?? CAPTURED_IN_VIEW;
  return (
    <Panel
      title="Forces"
      fact={fact}
      className="h-full"
      state={{ kind: "empty", title: NOTHING_CAPTURED, text, action }}
    />
  );
}

function exportsOf(forces: Forces, detail: unknown, png: () => Promise<Blob | null>): (MenuItem | "line")[] {
  const name = `forces-${forces.step}`;
  const columns: { name: string; cells: ArrayLike<Cell> }[] = [
    ...[...forces.columns].map(([column, cells]) => ({ name: column, cells })),
    { name: "verdict", cells: forces.verdicts },
  ];
  return [
    { label: "PNG", onSelect: () => void png().then((blob) => blob && downloadBlob(`${name}.png`, blob)) },
    { label: "CSV, all rows", onSelect: () => downloadText(`${name}.csv`, csvOf(columns), "text/csv") },
    {
      label: "JSON, with the selected row",
      onSelect: () => {
        const { step, tensor, agree, fight, neutral, thresholds } = forces;
        const features = Object.fromEntries(columns.map((column) => [column.name, Array.from(column.cells)]));
        const body = { step, tensor, agree, fight, neutral, thresholds, features, selected: plain(detail) };
        downloadText(`${name}.json`, jsonOf(body), "application/json");
      },
    },
  ];
}

/** Typed arrays as lists, so that JSON writes them as such. */
function plain(value: unknown): unknown {
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, part]) => [
      name,
      part instanceof Float64Array ? Array.from(part) : part,
    ]),
  );
}
