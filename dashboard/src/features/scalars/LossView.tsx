/** The loss panel: legend or read-out in the header, chart or table below. */
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { seriesColour } from "@/charts/colors/seriesColors";
import type { Theme } from "@/charts/colors/viridis";
import { LineChart } from "@/charts/line";
import { lowerBound } from "@/charts/line/decimate";
import type { LinePlot } from "@/charts/line/LinePlot";
import { type Line, type Mark, measured, type Pointed, type Range, snapToPoint } from "@/charts/line/lines";
import { countOutside, robustLimits } from "@/charts/line/robust";
import type { Points, Trend } from "@/charts/line/trend";
import { downloadBlob, downloadText } from "@/lib/download";
import { formatCount, formatValue } from "@/lib/format";
import type { AbandonedPart } from "@/live/series";
import { Icon, IconButton, Menu, type MenuItem, Panel, type PanelState, Popover, Segmented } from "@/ui";
import { csvOf, jsonOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
import type { Sort } from "@/ui/table/DataTable";
import { LazyDataTable } from "@/ui/table/LazyDataTable";
import type { Band } from "./breakpointHits";
import { abandonedLines, leftText, outsideText } from "./chartLines";
import { RECENT, rangeView, type View, viewRange } from "./chartRange";
import { SmoothingSlider } from "./SmoothingSlider";

export interface LossViewProps {
  name: string;
  /** Other scalars that can be shown. */
  names: readonly string[];
  onName: (name: string) => void;
  points: Points;
  trend: Trend;
  /** What the run did before it went back. */
  abandoned: readonly AbandonedPart[];
  /** The validation of the same metric, of a run that has ended. */
  validation: Validation | null;
  /** Whether a few unusual values are left out of the range. */
  robust: boolean;
  onRobust: (on: boolean) => void;
  /** Whether old points were thinned to minima and maxima. */
  exact: boolean;
  version: number;
  band: Band;
  marks: readonly Mark[];
  view: View;
  /** A step to put the cursor on; null where none was asked for. */
  at: number | null;
  onView: (view: View) => void;
  logScale: boolean;
  onLogScale: (on: boolean) => void;
  smoothing: number;
  onSmoothing: (weight: number) => void;
  expanded: boolean;
  onExpand: () => void;
  /** Tells what the cursor is on. */
  onFocusPoint: (point: { name: string; value: number } | null) => void;
  state: PanelState;
  stale: string | null;
  running: boolean;
  theme: Theme;
}

export interface Validation {
  name: string;
  x: Float64Array;
  y: Float64Array;
}

const SCALES = [
  { value: "linear", label: "Linear" },
  { value: "log", label: "Log" },
] as const;

export function LossView(props: LossViewProps) {
  const { name, points, version, marks, view, onView, logScale, theme, state, stale } = props;
  const [cursor, setCursor] = useState<Pointed | null>(null);
  const [asTable, setAsTable] = useState(false);
  const plotRef = useRef<LinePlot | null>(null);
  const last = points.step.length - 1;
  const [first, end] = [points.step[0] ?? 0, points.step[last] ?? 0];
  const left = Math.max(end, ...props.abandoned.map(({ step }) => step.at(-1) ?? 0));
  const range = viewRange(view, first, end, left);
  const [lastLabel, warning] = endTexts(points);
  const main = useLossLine(props, lastLabel, warning);
  const validation = useValidationLine(props);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme changes the colour
  const pale = useMemo(() => abandonedLines(name, props.abandoned, 0), [name, props.abandoned, theme]);
  const lines = useMemo(() => [main, ...validation, ...pale], [main, validation, pale]);
  const { limits, outside } = robustRange([main, ...validation], range, props);
  const at = cursor !== null && cursor.id === name && cursor.index <= last ? cursor : null;
  const { at: wanted } = props;
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another step moves the cursor, a new point does not
  useEffect(() => {
    if (wanted !== null && last >= 0) setCursor(snapToPoint([main], wanted));
  }, [wanted, last < 0]);
  const moveTo = (pointed: Pointed | null) => {
    // Also over the validation the steps of the metric itself are read out.
    const next = pointed === null || pointed.id === name ? pointed : snapToPoint([main], pointed.x);
    setCursor(next);
    props.onFocusPoint(next === null ? null : { name, value: next.y });
  };
  const tools = (
    <>
      <Segmented
        label="Steps shown"
        value={view.kind}
        choices={[
          { value: "all", label: "All" },
          { value: "recent", label: String(RECENT) },
          ...(view.kind === "range" ? [{ value: "range" as const, label: "Zoom" }] : []),
        ]}
        onChange={(kind) => kind !== "range" && onView({ kind })}
      />
      <Segmented
        label="Scale"
        value={logScale ? "log" : "linear"}
        choices={SCALES}
        onChange={(scale) => props.onLogScale(scale === "log")}
      />
      <Popover
        label="Smoothing"
        button={<Icon name="sliders" size={15} />}
        className="-mx-1 flex size-6 shrink-0 items-center justify-center text-t2 hover:text-text"
      >
        <SmoothingSlider weight={props.smoothing} onWeight={props.onSmoothing} className="w-40" />
        <div className="mt-2 flex items-center gap-2">
          Range
          <Segmented
            label="Range of the values"
            value={props.robust ? "robust" : "full"}
            choices={RANGES}
            onChange={(range) => props.onRobust(range === "robust")}
          />
        </div>
      </Popover>
      <ExportMenu subject={name} items={exportsOf(props, plotRef, asTable, setAsTable)} />
      <IconButton
        icon={props.expanded ? "shrink" : "expand"}
        label={props.expanded ? "Restore size" : "Maximize"}
        pressed={props.expanded}
        onClick={props.onExpand}
      />
    </>
  );
  return (
    <Panel
      title={title(name)}
      fact={<Fact {...props} cursor={at?.index ?? null} outside={outside} />}
      stale={stale}
      tools={tools}
      state={state}
      className="h-full"
      bodyClassName={asTable ? "" : "px-3 pb-0.5"}
    >
      {asTable ? (
        <PointTable {...props} />
      ) : (
        <LineChart
          label={chartLabel(props, lines)}
          lines={lines}
          version={version}
          range={range}
          limits={limits}
          bounds={viewRange({ kind: "all" }, first, end, left)}
          onRange={(next) => onView(rangeView(next))}
          onReset={() => onView({ kind: "recent" })}
          logY={logScale}
          marks={marks}
          cursor={at}
          onCursor={moveTo}
          // While the panel is large, Esc restores its size.
          keepsEscape={props.expanded}
          theme={theme}
          plotRef={plotRef}
        />
      )}
    </Panel>
  );
}

const RANGES = [
  { value: "robust", label: "Robust" },
  { value: "full", label: "Full" },
] as const;

/** The last value and its step; of a loss that is not finite the last finite one, and when that ended. */
function endTexts({ step, value }: Points): [text: string, warning: string] {
  const last = step.length - 1;
  let finite = last;
  while (finite >= 0 && !Number.isFinite(value[finite])) finite -= 1;
  if (last < 0) return ["", ""];
  const text = (index: number) => `${formatValue(value[index])} at step ${formatCount(step[index])}`;
  if (finite === last) return [text(last), ""];
  return [finite < 0 ? "" : `last finite ${text(finite)}`, text(finite + 1)];
}

function chartLabel({ name, points, validation }: LossViewProps, lines: readonly Line[]): string {
  const count = points.step.length;
  const end = endTexts(points).filter((text) => text !== "");
  const values = count === 0 ? "no points yet" : [`${formatCount(count)} points`, ...end].join(", ");
  const best = lines.find(({ ring }) => ring)?.ring?.text;
  const beside = validation === null ? "" : ` ${validation.name}${best ? `: ${best}` : ""}.`;
  return `${name} over steps: ${values}.${beside}${leftText(lines.filter(({ abandoned }) => abandoned))}`;
}

/** The smoothed line with what was measured behind it and the band of the breakpoint. */
function useLossLine(
  { name, points, trend, band, version, theme }: LossViewProps,
  endText: string,
  endWarning: string,
): Line {
  const { sigma } = band;
  // biome-ignore lint/correctness/useExhaustiveDependencies: columns grow in place; the theme changes the colour
  return useMemo((): Line => {
    const { mean, deviation } = trend;
    return {
      id: name,
      label: name,
      x: points.step,
      y: trend.smoothed,
      raw: points.value,
      band: (index) => {
        const half = sigma * (deviation[index] as number);
        return [(mean[index] as number) - half, (mean[index] as number) + half];
      },
      colour: seriesColour(0),
      endText,
      endWarning,
    };
  }, [name, points.step.length, endText, endWarning, trend, sigma, version, theme]);
}

/** Means over more than half of the values would hide what a log of few values says. */
const DOTTED_BELOW = 200;

/** The validation with a ring on its lowest value. */
function useValidationLine({ validation, theme }: LossViewProps): Line[] {
  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme changes the colour
  return useMemo((): Line[] => {
    if (validation === null) return [];
    const { name, x, y } = validation;
    const best = y.reduce((low, value, at) => (value < (y[low] ?? Number.POSITIVE_INFINITY) ? at : low), -1);
    const text = `best ${formatValue(y[best])} at step ${formatCount(x[best])}`;
    const line = { id: name, label: name, x, y, colour: seriesColour(1), dots: x.length < DOTTED_BELOW };
    return [{ ...line, unnamed: true, ring: best < 0 ? undefined : { index: best, text } }];
  }, [validation, theme]);
}

/** The usual values of the steps that are shown, and how many lie beyond. */
function robustRange(lines: readonly Line[], range: Range, { robust, logScale, exact }: LossViewProps) {
  if (!robust) return { limits: null, outside: "" };
  const limits = robustLimits(
    lines.map((line) => shownPart(line, range)),
    logScale,
  );
  return { limits, outside: outsideText(countOutside(lines, limits, range), exact) };
}

function shownPart(line: Line, [from, to]: Range): Line {
  const start = lowerBound(line.x, line.x.length, from);
  const stop = lowerBound(line.x, line.x.length, to + 1);
  const part = (values: ArrayLike<number>) => (values as Float64Array).subarray(start, stop);
  return { ...line, x: part(line.x), y: part(measured(line)), raw: undefined };
}

function title(name: string): string {
  return name === "loss" ? "Loss" : name;
}

/** Beside the title: other metrics to choose, then the legend, or the point under the cursor. */
function Fact(props: LossViewProps & { cursor: number | null; outside: string }) {
  const { name, names, onName, points, trend, band, cursor, exact, validation, outside } = props;
  const at = cursor !== null && cursor < points.step.length ? cursor : null;
  return (
    <span className="flex items-center gap-1.5">
      {names.length > 1 && (
        <Menu
          align="start"
          heading="Metric"
          trigger={<IconButton icon="chevronDown" label="Choose a metric" className="-mx-1" />}
          items={names.map((one) => ({ label: one, checked: one === name, onSelect: () => onName(one) }))}
        />
      )}
      {at === null ? (
        <Legend sigma={band.sigma} exact={exact} withValidation={validation !== null} outside={outside} />
      ) : (
        <span aria-live="polite" className="text-text">
          {formatValue(points.value[at])} at step {formatCount(points.step[at])}
          {/* Where the panel is narrow the tools need the room. */}
          <span className="hidden text-t3 @[640px]:inline">
            {" "}
            · smoothed {formatValue(trend.smoothed[at])}
          </span>
        </span>
      )}
    </span>
  );
}

interface LegendProps {
  sigma: number;
  exact: boolean;
  withValidation: boolean;
  /** How many values lie beyond the range. */
  outside: string;
}

function Legend({ sigma, exact, withValidation, outside }: LegendProps) {
  return (
    <>
      <Key mark={<span className="h-0.5 w-3 bg-series-1" />}>{withValidation ? "train" : "smoothed"}</Key>
      {withValidation && <Key mark={<span className="h-0.5 w-3 bg-series-2" />}>validation</Key>}
      <Key mark={<span className="h-0.5 w-3 bg-series-1/35" />}>
        {exact ? "each step" : "lowest and highest"}
      </Key>
      {!withValidation && <Key mark={<span className="h-2 w-3 bg-series-1/15" />}>±{sigma}σ</Key>}
      {outside !== "" && <span className="hidden text-bad @[680px]:inline">{outside}</span>}
    </>
  );
}

function Key({ mark, children }: { mark: ReactNode; children: ReactNode }) {
  return (
    <span className="flex items-center gap-1">
      {mark}
      {children}
    </span>
  );
}

function exportsOf(
  { name, points, trend }: LossViewProps,
  plotRef: { current: LinePlot | null },
  asTable: boolean,
  setAsTable: (on: boolean) => void,
): (MenuItem | "line")[] {
  const columns = () => [
    { name: "step", cells: points.step },
    { name, cells: points.value },
    { name: "smoothed", cells: trend.smoothed.subarray(0, points.step.length) },
  ];
  return [
    {
      label: "PNG, the chart",
      disabledReason: asTable ? "not in a table" : null,
      onSelect: () => void plotRef.current?.png().then((blob) => blob && downloadBlob(`${name}.png`, blob)),
    },
    { label: "CSV, every point", onSelect: () => downloadText(`${name}.csv`, csvOf(columns()), "text/csv") },
    {
      label: "JSON, every point",
      onSelect: () => {
        const body = Object.fromEntries(columns().map((column) => [column.name, Array.from(column.cells)]));
        downloadText(`${name}.json`, jsonOf(body), "application/json");
      },
    },
    "line",
    { label: "Show as table", checked: asTable, onSelect: () => setAsTable(!asTable) },
  ];
}

function PointTable({ name, points, trend, version, running }: LossViewProps) {
  const [sort, setSort] = useState<Sort | null>({ column: "step", direction: "descending" });
  const [selected, setSelected] = useState<number | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the columns grow in place; the version says when
  const columns = useMemo(
    () => [
      { name: "step", cells: points.step, numeric: true },
      { name, cells: points.value, numeric: true },
      { name: "smoothed", cells: trend.smoothed.subarray(0, points.step.length), numeric: true },
    ],
    [points, trend, name, version],
  );
  return (
    <LazyDataTable
      label={`${name} by step`}
      columns={columns}
      sort={sort}
      onSort={setSort}
      selected={selected}
      onSelect={setSelected}
      running={running}
    />
  );
}
