/** One measure of several runs over each other: by step, epoch or time, smoothed or not, linear or log. */

import { useEffect, useMemo, useRef, useState } from "react";
import type { Curve, CurveAxis } from "@/api/scalars";
import { SERIES, seriesColour, seriesTextColour } from "@/charts/colors/seriesColors";
import { LineChart, preloadLineChart } from "@/charts/line";
import { extentOf, type Line, type Pointed, type Range } from "@/charts/line/lines";
import { smooth } from "@/charts/line/smooth";
import { downloadBlob, downloadText } from "@/lib/download";
import { formatCount, formatFixed, formatValue, plural } from "@/lib/format";
import { NOTHING_TO_EXPORT } from "@/lib/messages";
import { mainMetric, metricTitle } from "@/lib/metricNames";
import { useTheme } from "@/lib/theme";
import { useUrlChoice, useUrlState } from "@/lib/urlState";
import { Icon, IconButton, Menu, Panel, type PanelState, Segmented } from "@/ui";
import { csvOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { panelToPng } from "@/ui/export/panelToPng";
import { middleOf, timeLabel, timeUnit } from "./curveValues";
import { type CurveRun, useCurves } from "./useCurves";

interface CurvesPanelProps {
  runs: readonly CurveRun[];
  expanded?: boolean;
  onExpand?: () => void;
  onPick?: (id: string) => void;
  /** What to do where nothing is chosen. */
  emptyText: string;
}

const X_TEXTS: Record<CurveAxis, (value: number, span: number) => string> = {
  step: (value, span) => (span >= 10_000 && value % 1_000 === 0 ? thousands(value) : wholes(value)),
  epoch: (value) => String(Number(value.toFixed(2))),
  time: timeLabel,
};
const thousands = (value: number) => (value === 0 ? "0" : `${formatCount(value / 1_000)}k`);
const wholes = (value: number) => (Number.isInteger(value) ? formatCount(value) : "");
const AXES = ["step", "epoch", "time"] as const;
const MAX_SMOOTHING = 0.99;

export default function CurvesPanel({ runs, expanded, onExpand, onPick, emptyText }: CurvesPanelProps) {
  const names = useMemo(() => [...new Set(runs.flatMap(({ scalars }) => scalars))].sort(), [runs]);
  const [chosen, setChosen] = useUrlState("measure", "");
  const [x, setX] = useUrlChoice("x", AXES);
  const [scale, setScale] = useUrlChoice("scale", ["linear", "log"]);
  const [smoothText, setSmooth] = useUrlState("smooth", "0");
  const weight = Math.min(MAX_SMOOTHING, Math.max(0, Number(smoothText) || 0));
  const name = chosen !== "" && names.includes(chosen) ? chosen : mainMetric(names);
  const { curves, loading, error } = useCurves(runs, name, x);
  const theme = useTheme();
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const body = useRef<HTMLDivElement>(null);
  const lines = useMemo(() => linesOf(runs, curves, weight, theme), [runs, curves, weight, theme]);
  const title = name === null ? "Curves" : metricTitle(name);
  const missing = runs.length - lines.length;
  const range = useMemo(() => shownRange(lines), [lines]);
  useEffect(preloadLineChart, []);
  return (
    <Panel
      title="Curves"
      titleShown={
        <Menu
          align="start"
          heading={names.length > 0 ? "Metric" : "No metrics yet"}
          items={names.map((one) => ({
            label: metricTitle(one),
            note: <span className="font-mono">{one}</span>,
            checked: one === name,
            onSelect: () => setChosen(one),
          }))}
          trigger={
            <button
              type="button"
              aria-label={`Metric: ${title}`}
              className="-mx-1.5 flex h-6 min-w-0 items-center gap-1 rounded-control px-1.5 font-semibold hover:bg-s2"
            >
              <span className="truncate">{title}</span>
              <Icon name="chevronDown" size={14} />
            </button>
          }
        />
      }
      tools={
        <>
          <Segmented
            label="Horizontal axis"
            value={x}
            choices={[
              { value: "step", label: "Step" },
              { value: "epoch", label: "Epoch" },
              { value: "time", label: "Time" },
            ]}
            onChange={setX}
          />
          <Segmented
            label="Scale of the values"
            value={scale}
            choices={[
              { value: "linear", label: "Linear" },
              { value: "log", label: "Log" },
            ]}
            onChange={setScale}
          />
          {onExpand && (
            <IconButton
              icon={expanded ? "shrink" : "expand"}
              label={expanded ? "Restore size" : "Maximize"}
              onClick={onExpand}
            />
          )}
          <ExportMenu
            subject="curves"
            disabledReason={lines.length === 0 ? NOTHING_TO_EXPORT : null}
            items={[
              { label: "CSV, as fetched", onSelect: () => saveCsv(name ?? "curves", x, runs, curves) },
              { label: "PNG, as shown", onSelect: () => void savePng(name ?? "curves", body.current) },
            ]}
          />
        </>
      }
      className="h-full"
      bodyClassName="pb-2"
      state={stateOf(runs, names, lines.length, loading, error, emptyText)}
    >
      <div ref={body} className="flex min-h-0 flex-1 flex-col">
        <div className="flex min-h-0 flex-1 flex-col px-3">
          <LineChart
            label={chartLabel(title, x, lines)}
            lines={lines}
            range={range}
            byLine
            logY={scale === "log"}
            xText={X_TEXTS[x]}
            xUnit={x === "time" ? timeUnit : undefined}
            cursor={pointed}
            onCursor={setPointed}
            onPick={onPick}
            theme={theme}
          />
        </div>
        <div className="flex h-6 shrink-0 items-center gap-2 px-3 text-label text-t3">
          <label className="flex items-center gap-2">
            Smoothing
            <input
              type="range"
              min={0}
              max={MAX_SMOOTHING}
              step={0.01}
              value={weight}
              onChange={(event) => setSmooth(String(Number(event.target.value)))}
              className="h-6 w-20 accent-[var(--accent)]"
            />
            <span className="w-7 text-t2">{formatFixed(weight, 2)}</span>
          </label>
          <span className="ml-auto min-w-0 truncate text-body text-t2" aria-live="polite">
            {pointed
              ? pointedText(pointed, lines, x, range)
              : missing > 0 && !loading
                ? noneText(missing, name)
                : ""}
          </span>
        </div>
      </div>
    </Panel>
  );
}

function noneText(missing: number, name: string | null): string {
  return `${plural(missing, "run")} without ${metricTitle(name ?? "").toLowerCase()}`;
}

function chartLabel(title: string, x: CurveAxis, lines: readonly Line[]): string {
  const names = lines.slice(0, SERIES).map(({ label }) => label);
  const more = lines.length > SERIES ? ` and ${lines.length - SERIES} more` : "";
  const points = lines.reduce((sum, line) => sum + line.x.length, 0);
  return `${title} over ${x} of ${plural(lines.length, "run")}, ${formatCount(points)} points: ${names.join(", ")}${more}.`;
}

function pointedText(
  { id, index, x: at }: Pointed,
  lines: readonly Line[],
  x: CurveAxis,
  range: Range,
): string {
  const line = lines.find((one) => one.id === id);
  const where =
    x === "time" ? `after ${timeLabel(at, range[1] - range[0])}` : `at ${x} ${X_TEXTS[x](at, 0) || at}`;
  return `${line?.label ?? id}  ${formatValue(line?.y[index])} ${where}`;
}

/** All of them; what begins near 0 is drawn from 0 on. */
function shownRange(lines: readonly Line[]): Range {
  const [from, to] = extentOf(lines) ?? [0, 1];
  return [from > 0 && from < to * 0.1 ? 0 : from, to];
}

/** The first six have colours, the others lie grey behind them. */
function linesOf(
  runs: readonly CurveRun[],
  curves: ReadonlyMap<string, Curve>,
  weight: number,
  _theme: string,
): Line[] {
  return runs.flatMap((run): Line[] => {
    const curve = curves.get(run.id);
    if (curve === undefined) return [];
    const middle = middleOf(curve);
    return [
      {
        id: run.id,
        label: run.name,
        x: curve.x,
        y: weight > 0 ? smooth(middle, weight) : middle,
        raw: weight > 0 && curve.exact ? middle : undefined,
        band: curve.exact ? undefined : (index) => [curve.low[index] as number, curve.high[index] as number],
        colour: seriesColour(run.colourSlot),
        textColour: seriesTextColour(run.colourSlot),
        faint: run.colourSlot >= SERIES,
        live: run.live,
      },
    ];
  });
}

function stateOf(
  runs: readonly CurveRun[],
  names: readonly string[],
  drawn: number,
  loading: boolean,
  error: string | null,
  emptyText: string,
): PanelState {
  if (drawn > 0) return { kind: "data" };
  if (runs.length === 0) return { kind: "empty", title: "No run is selected", text: emptyText };
  if (error !== null) return { kind: "error", title: "Could not load the curves", text: error };
  if (names.length > 0 && loading) return { kind: "loading" };
  return {
    kind: "empty",
    title: "No metrics yet",
    text: "Curves start with the first logged number.",
  };
}

function saveCsv(
  name: string,
  x: CurveAxis,
  runs: readonly CurveRun[],
  curves: ReadonlyMap<string, Curve>,
): void {
  const cells = { run: [] as string[], x: [] as number[], low: [] as number[], high: [] as number[] };
  for (const run of runs) {
    const curve = curves.get(run.id);
    if (curve === undefined) continue;
    for (let index = 0; index < curve.x.length; index += 1) {
      cells.run.push(run.name);
      cells.x.push(curve.x[index] as number);
      cells.low.push(curve.low[index] as number);
      cells.high.push(curve.high[index] as number);
    }
  }
  const columns = [
    { name: "run", cells: cells.run },
    { name: x, cells: cells.x },
    { name: `${name} low`, cells: cells.low },
    { name: `${name} high`, cells: cells.high },
  ];
  downloadText(`curves-${name}.csv`, csvOf(columns), "text/csv");
}

async function savePng(name: string, inside: Element | null): Promise<void> {
  const blob = await panelToPng(inside);
  if (blob !== null) downloadBlob(`curves-${name}.png`, blob);
}
