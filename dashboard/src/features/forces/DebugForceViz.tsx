/** Forces: gradient against SOM magnitude of every feature, and one feature's step in four pictures. */
import { type ReactNode, useRef, useState } from "react";
import { markGradient } from "@/charts/colors/viridis";
import { downloadBlob, downloadText } from "@/lib/download";
import { formatCount, formatValue } from "@/lib/format";
import type { StatusRule } from "@/lib/rowStatus";
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
import { type ForceWords, TwoForceView } from "./TwoForceView";

export interface DebugForceVizProps {
  forces: Forces | null;
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

const WORDS: ForceWords = { first: "Gradient", second: "SOM" };

export default function DebugForceViz(props: DebugForceVizProps) {
  const { forces, error, selected, stale } = props;
  const theme = useTheme();
  const container = useRef<HTMLDivElement>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const shown = forces !== null && selected !== null && selected < forces.rows ? selected : null;
  const detail = useForceDetail(forces?.tensor ?? null, shown);
  if (forces === null) return <NoForces error={error} />;
  if (error !== null && props.chosen !== null && props.chosen !== forces.tensor) {
    // Another tensor's forces in its place, however pale, would be taken for its own.
    const menu = <TensorMenu {...forces} tensor={props.chosen} onTensor={props.onTensor} />;
    return <NoForces error={error} fact={menu} />;
  }
  const tools = (
    <>
      {forces.columns.has("win_rate") && (
        <span className="flex items-center gap-2 whitespace-nowrap text-label text-t3">
          Win rate 0
          <span className="h-2 w-16 rounded-mark" style={{ background: markGradient(theme) }} />1
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
            {hovered === null ? summaryOf(forces) : pointText(forces, hovered)}
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
          words={WORDS}
          detail={shown === null ? null : detail.data}
          detailError={detail.error?.message ?? null}
          onHover={setHovered}
          theme={theme}
        />
      </div>
    </Panel>
  );
}

/** "33 fight, 31 agree", with the neutral ones where there are any. */
export function summaryOf({ agree, fight, neutral, tensor }: Forces): string {
  if (agree + fight === 0) return `${formatCount(neutral)} neutral: one force alone moves ${tensor}`;
  const parts = [`${formatCount(fight)} fight`, `${formatCount(agree)} agree`];
  if (neutral > 0) parts.push(`${formatCount(neutral)} neutral`);
  return parts.join(", ");
}

function pointText({ columns, verdicts }: Forces, index: number): string {
  const value = (name: string) => formatValue(columns.get(name)?.[index], 3);
  const rate = columns.has("win_rate") ? `, win rate ${value("win_rate")}` : "";
  return `${index}: gradient ${value("grad_magnitude")}, SOM ${value("som_magnitude")}${rate}, ${verdicts[index] ?? ""}`;
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
    const message = error ?? "This run ended before its forces were looked at.";
    return (
      <Panel title="Forces" fact={fact} className="h-full" state={{ kind: "unavailable", text: message }} />
    );
  }
  const action = <StepAction verb={step} onStep={() => void step.run({ n: 1 })} />;
  const text =
    error ?? "Captures start while this page is open. Take one step to see what it does to the weights.";
  return (
    <Panel
      title="Forces"
      fact={fact}
      className="h-full"
      state={{ kind: "empty", title: "Nothing captured for this step", text, action }}
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
    { label: "CSV, all features", onSelect: () => downloadText(`${name}.csv`, csvOf(columns), "text/csv") },
    {
      label: "JSON, with the selected feature",
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
