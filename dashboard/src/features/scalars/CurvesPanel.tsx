/** One measure of several runs over each other: by step, epoch or time, smoothed or not, linear or log. */

import { useEffect, useMemo, useRef, useState } from "react";
import type { Curve, CurveAxis } from "@/api/scalars";
import { SERIES, seriesColour, seriesTextColour } from "@/charts/colors/seriesColors";
import { LineChart, preloadLineChart } from "@/charts/line";
import { extentOf, type Line, type Pointed, type Range } from "@/charts/line/lines";
import { countOutside, fenceOf, robustLimits } from "@/charts/line/robust";
import { fittingWeight, smooth } from "@/charts/line/smooth";
import { downloadBlob, downloadText } from "@/lib/download";
import { formatCount, formatValue, plural } from "@/lib/format";
import { NOTHING_TO_EXPORT } from "@/lib/messages";
import { mainMetric, metricTitle } from "@/lib/metricNames";
import { useTheme } from "@/lib/theme";
import { useUrlChoice, useUrlState } from "@/lib/urlState";
import { Button, Icon, IconButton, Menu, Panel, type PanelState, Segmented } from "@/ui";
import { csvOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { panelToPng } from "@/ui/export/panelToPng";
import { AXES, narrowestOf, readSpan, spanText, X_CHOICES, X_TEXTS } from "./axisText";
import { fromZero, outsideText } from "./chartLines";
import { middleOf, timeLabel, timeUnit } from "./curveValues";
import { SmoothingSlider, useSmoothing } from "./SmoothingSlider";
import { type CurveRun, useCurves } from "./useCurves";

interface CurvesPanelProps {
  runs: readonly CurveRun[];
  expanded?: boolean;
  onExpand?: () => void;
  onPick?: (id: string) => void;
  /** What to do where nothing is chosen. */
  emptyText: string;
}

export default function CurvesPanel({ runs, expanded, onExpand, onPick, emptyText }: CurvesPanelProps) {
  const names = useMemo(() => [...new Set(runs.flatMap(({ scalars }) => scalars))].sort(), [runs]);
  const [chosen, setChosen] = useUrlState("measure", "");
  const [x, setX] = useUrlChoice("x", AXES);
  const [scale, setScale] = useUrlChoice("scale", ["linear", "log"]);
  const [weight, setWeight] = useSmoothing(0);
  const [rangeKind, setRangeKind] = useUrlChoice("range", ["robust", "full"]);
  const [span, setSpan] = useUrlState("span", "");
  const name =
    chosen !== "" && names.includes(chosen) ? chosen : mainMetric(runs.map(({ scalars }) => scalars));
  const { curves, loading, error } = useCurves(runs, name, x);
  const theme = useTheme();
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const body = useRef<HTMLDivElement>(null);
  const robust = rangeKind === "robust";
  const lines = useMemo(
    () => linesOf(runs, curves, weight, robust, theme),
    [runs, curves, weight, robust, theme],
  );
  const title = name === null ? "Curves" : metricTitle(name);
  const missing = runs.length - lines.length;
  const bounds = useMemo(() => fromZero(extentOf(lines) ?? [0, 1]), [lines]);
  const range = useMemo(() => readSpan(span) ?? bounds, [span, bounds]);
  const logY = scale === "log";
  const limits = useMemo(() => (robust ? robustLimits(lines, logY) : null), [lines, robust, logY]);
  const beyond = outsideText(
    countOutside(lines, limits, range),
    lines.every(({ band }) => !band),
  );
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
            choices={X_CHOICES}
            onChange={(next) => {
              setSpan("");
              setX(next);
            }}
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
            bounds={bounds}
            onRange={(next) => setSpan(spanText(next))}
            narrowest={narrowestOf(x, bounds)}
            limits={limits}
            byLine
            logY={logY}
            xText={X_TEXTS[x]}
            xUnit={x === "time" ? timeUnit : undefined}
            cursor={pointed}
            onCursor={setPointed}
            onPick={onPick}
            theme={theme}
          />
        </div>
        <p className="flex h-5 shrink-0 items-center gap-3 px-3 text-t2">
          {beyond !== "" && (
            <span className="min-w-0 truncate text-bad" title={beyond}>
              {beyond}
            </span>
          )}
          <span className="ml-auto min-w-0 truncate" aria-live="polite">
            {pointed
              ? pointedText(pointed, lines, x, range)
              : missing > 0 && !loading
                ? noneText(missing, name)
                : ""}
          </span>
        </p>
        <div className="flex h-6 shrink-0 items-center gap-2 px-3 text-label text-t3">
          <SmoothingSlider weight={weight} onWeight={setWeight} />
          <Segmented
            label="Range of the values"
            value={rangeKind}
            choices={[
              { value: "robust", label: "Robust" },
              { value: "full", label: "Full" },
            ]}
            onChange={setRangeKind}
          />
          {span !== "" && (
            <Button small look="ghost" className="ml-auto" onClick={() => setSpan("")}>
              Reset zoom
            </Button>
          )}
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

/** The first six have colours, the others lie grey behind them. */
function linesOf(
  runs: readonly CurveRun[],
  curves: ReadonlyMap<string, Curve>,
  weight: number,
  robust: boolean,
  _theme: string,
): Line[] {
  return runs.flatMap((run): Line[] => {
    const curve = curves.get(run.id);
    if (curve === undefined) return [];
    const middle = middleOf(curve);
    const used = fittingWeight(weight, middle.length);
    return [
      {
        id: run.id,
        label: run.name,
        x: curve.x,
        y: used > 0 ? smooth(middle, used, robust ? fenceOf(middle, false) : null) : middle,
        raw: used > 0 && curve.exact ? middle : undefined,
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
