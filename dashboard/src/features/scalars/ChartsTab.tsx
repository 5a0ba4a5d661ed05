/** Live · Charts: every scalar of the run as a small chart, with one cursor and one range for all. */
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { type CurveAxis, fetchManySeries } from "@/api/scalars";
import { preloadLineChart } from "@/charts/line";
import { CursorSync } from "@/charts/line/cursorSync";
import type { Range, Threshold } from "@/charts/line/lines";
import { DEFAULT_TREND } from "@/charts/line/trend";
import { useAction } from "@/lib/actions";
import { downloadText } from "@/lib/download";
import { formatCount, formatValue } from "@/lib/format";
import { NOTHING_TO_EXPORT } from "@/lib/messages";
import { useTheme } from "@/lib/theme";
import { useUrlChoice, useUrlList, useUrlState } from "@/lib/urlState";
import { useThrottledStore } from "@/lib/useThrottledStore";
import { useBreakpoints, useRunId } from "@/live/hooks";
import { useRun } from "@/live/store";
import { Button, Field, Icon, Panel, Segmented } from "@/ui";
import { csvOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { AXES, readSpan, spanText, X_CHOICES } from "./axisText";
import { ChartCard } from "./ChartCard";
import { fromZero, joined } from "./chartLines";
import { type ChartSpec, namesIn, pairNames, shownCharts } from "./chartPairs";
import { SmoothingSlider, useSmoothing } from "./SmoothingSlider";
import { type ChartData, useChartData } from "./useChartData";
import { useScalarNames } from "./useScalarNames";

/** While a run trains, the charts are drawn at most so often. */
const REDRAW_MS = 250;
/** Charts so far outside of what is shown are drawn already. */
const DRAWN_AHEAD = "200px";
const NO_THRESHOLDS: readonly Threshold[] = [];
/** Points per scalar in an export; more come as the lowest and highest of buckets. */
const EXPORTED_POINTS = 100_000;

export default function ChartsTab({ stale }: { stale: string | null }) {
  const names = useScalarNames();
  const [filter, setFilter] = useUrlState("find", "");
  const [pins, setPins] = useUrlList("pin");
  const charts = useMemo(() => pairNames(names), [names]);
  const shown = useMemo(() => shownCharts(charts, pins, filter), [charts, pins, filter]);
  const [axis, setAxis] = useUrlChoice("x", AXES);
  const [rangeKind, setRangeKind] = useUrlChoice("range", ["robust", "full"]);
  const [weight, setWeight] = useSmoothing(DEFAULT_TREND.smoothing);
  const [span, setSpan] = useUrlState("span", "");
  const pinned = shown.filter(({ id }) => pins.includes(id)).length;
  useEffect(preloadLineChart, []);
  if (names.length === 0) return <NoScalars />;
  return (
    <section aria-label="Charts" className="flex h-full min-h-0 flex-col gap-2">
      <header className="flex min-h-9 shrink-0 flex-wrap items-center gap-x-3 rounded-control bg-surface px-3">
        <h2 className="font-semibold">Charts</h2>
        <span className="text-t3">
          {shown.length < charts.length ? `${formatCount(shown.length)} of ` : ""}
          {formatCount(charts.length)}
          {pinned > 0 && `, ${formatCount(pinned)} pinned`}
        </span>
        {stale && <span className="text-warn">{stale}</span>}
        <Legend />
        <div data-tools="" className="ml-auto flex min-h-9 flex-wrap items-center gap-3">
          <span className="relative">
            <Icon
              name="filter"
              size={14}
              className="pointer-events-none absolute top-[5px] left-1.5 text-t3"
            />
            <Field
              small
              data-filter=""
              label="Filter charts by name"
              placeholder="Filter by name"
              value={filter}
              onChange={setFilter}
              onRestore={() => setFilter("")}
              className="w-40 pl-6.5 font-normal"
            />
          </span>
          <SmoothingSlider weight={weight} onWeight={setWeight} className="w-24" />
          <span className="flex items-center gap-2">
            Range
            <Segmented
              label="Range of the values"
              value={rangeKind}
              choices={[
                { value: "robust", label: "Robust" },
                { value: "full", label: "Full" },
              ]}
              onChange={setRangeKind}
            />
          </span>
          <Segmented
            label="Horizontal axis"
            value={axis}
            choices={X_CHOICES}
            onChange={(next) => {
              setSpan("");
              setAxis(next);
            }}
          />
          {span !== "" && (
            <Button small look="ghost" onClick={() => setSpan("")}>
              Reset zoom
            </Button>
          )}
          <ExportAll charts={shown} />
        </div>
      </header>
      {shown.length === 0 ? (
        <p className="px-3 text-t2">No metric has “{filter}” in its name. Esc in the filter shows all.</p>
      ) : (
        <Grid
          // Another axis has a cursor and points of its own.
          key={axis}
          charts={shown}
          pins={pins}
          onPins={setPins}
          axis={axis}
          weight={weight}
          robust={rangeKind === "robust"}
          zoom={readSpan(span)}
          onZoom={(range) => setSpan(spanText(range))}
          stale={stale !== null}
        />
      )}
    </section>
  );
}

interface GridProps {
  charts: readonly ChartSpec[];
  pins: readonly string[];
  onPins: (pins: readonly string[]) => void;
  axis: CurveAxis;
  weight: number;
  robust: boolean;
  zoom: Range | null;
  onZoom: (range: Range | null) => void;
  stale: boolean;
}

function Grid(props: GridProps) {
  const { charts, pins, onPins, axis, robust, zoom, onZoom, stale } = props;
  // The slider moves at once; the lines follow as fast as they can be drawn.
  const weight = useDeferredValue(props.weight);
  const theme = useTheme();
  const [scroller, inView] = useChartsInView();
  const drawn = useOnePerFrame(inView);
  const seen = charts.filter(({ id }) => inView.has(id));
  const data = useChartData(seen.flatMap(namesIn), axis);
  // Only to render again; which charts have more to draw is told by their points.
  useThrottledStore(useRun, (live) => live.seriesVersion, REDRAW_MS);
  const [from, to] = fromZero(extentOfAll(charts, data) ?? [0, 1]);
  const bounds = useMemo((): Range => [from, to], [from, to]);
  const range = useMemo((): Range => zoom ?? [from, to], [zoom?.[0], zoom?.[1], from, to]);
  const [sync] = useState(() => new CursorSync());
  const thresholds = useThresholds(theme);
  const latest = useRef({ pins, onPins, onZoom, data });
  latest.current = { pins, onPins, onZoom, data };
  const pin = useCallback((id: string) => {
    const { pins: now, onPins: set } = latest.current;
    set(now.includes(id) ? now.filter((one) => one !== id) : [...now, id]);
  }, []);
  const setRange = useCallback((next: Range | null) => latest.current.onZoom(next), []);
  const points = useCallback((name: string) => latest.current.data.points(name), []);
  const focused = useFocusedChart();
  useAction({
    id: "pin-chart",
    title: "Pin or unpin the focused chart",
    group: "Panels",
    keys: "P",
    disabledReason: focused.id === null ? "Point at a chart or focus it first" : null,
    run: () => focused.id !== null && pin(focused.id),
  });
  useAction({
    id: "charts-reset",
    title: "Reset zoom of all charts",
    group: "Panels",
    words: "zoom reset",
    disabledReason: zoom === null ? "The charts show all steps" : null,
    run: () => onZoom(null),
  });
  return (
    <>
      {data.error !== null && (
        <p role="alert" className="px-3 text-bad">
          Could not load the charts: {data.error}
        </p>
      )}
      <div
        ref={scroller}
        {...focused.handlers}
        className={`grid min-h-0 flex-1 auto-rows-[172px] grid-cols-[repeat(auto-fill,minmax(280px,1fr))] gap-2 overflow-auto ${stale ? "stale" : ""}`}
      >
        {charts.map((spec) => (
          <div key={spec.id} data-chart={spec.id} className="min-w-0">
            {drawn.has(spec.id) && (
              <ChartCard
                spec={spec}
                points={points}
                version={versionOf(spec, data)}
                weight={weight}
                robust={robust}
                axis={axis}
                range={range}
                bounds={bounds}
                onRange={setRange}
                sync={sync}
                thresholds={thresholds.get(spec.train ?? "") ?? NO_THRESHOLDS}
                theme={theme}
                pinned={pins.includes(spec.id)}
                onPin={pin}
              />
            )}
          </div>
        ))}
      </div>
    </>
  );
}

/** What makes a chart draw its lines anew: more points, or others after the run went back. Not those of other charts. */
function versionOf(spec: ChartSpec, data: ChartData): string {
  const ends = namesIn(spec).map((name) => {
    const points = data.points(name);
    if (points === null) return "";
    const { x, y, abandoned = [] } = points;
    return `${x.length} ${x[0]} ${x.at(-1)} ${y.at(-1)} ${abandoned.length} ${abandoned.at(-1)?.step.length}`;
  });
  return ends.join(" ");
}

/** From the first to the last point of all charts. */
function extentOfAll(charts: readonly ChartSpec[], data: ChartData): Range | null {
  let extent: Range | null = null;
  for (const name of charts.flatMap(namesIn)) {
    const points = data.points(name);
    if (points === null || points.x.length === 0) continue;
    const ends = [points.x, ...(points.abandoned ?? []).map(({ step }) => step)].map(
      (x) => x.at(-1) as number,
    );
    extent = joined(extent, [points.x[0] as number, Math.max(...ends)]);
  }
  return extent;
}

/** Ids of the charts that can be seen, or nearly; the others are empty boxes of the same size. */
function useChartsInView(): [(element: HTMLElement | null) => void, ReadonlySet<string>] {
  const [element, setElement] = useState<HTMLElement | null>(null);
  const [inView, setInView] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    if (element === null) return;
    const observer = new IntersectionObserver(
      (entries) =>
        setInView((old) => {
          const next = new Set(old);
          for (const { target, isIntersecting } of entries) {
            const id = (target as HTMLElement).dataset.chart ?? "";
            if (isIntersecting) next.add(id);
            else next.delete(id);
          }
          return next;
        }),
      { root: element, rootMargin: DRAWN_AHEAD },
    );
    const observeAll = () => {
      for (const child of element.children) observer.observe(child);
    };
    observeAll();
    const children = new MutationObserver(observeAll);
    children.observe(element, { childList: true });
    return () => {
      children.disconnect();
      observer.disconnect();
    };
  }, [element]);
  return [setElement, inView];
}

/** The first ones at once, then one more with each frame: to make four at a time would stop a scroll for 100 ms. */
function useOnePerFrame(inView: ReadonlySet<string>): ReadonlySet<string> {
  const [drawn, setDrawn] = useState(inView);
  useEffect(() => {
    const next = [...inView].find((id) => !drawn.has(id));
    const isLeft = [...drawn].some((id) => !inView.has(id));
    if (next === undefined && !isLeft) return;
    if (drawn.size === 0) {
      setDrawn(inView);
      return;
    }
    const frame = requestAnimationFrame(() =>
      setDrawn((old) => {
        const kept = [...old].filter((id) => inView.has(id));
        return new Set(next === undefined ? kept : [...kept, next]);
      }),
    );
    return () => cancelAnimationFrame(frame);
  }, [inView, drawn]);
  return drawn;
}

/** The chart that keys mean: the one with focus, else the one under the pointer. */
function useFocusedChart() {
  const [focus, setFocus] = useState<string | null>(null);
  const [hover, setHover] = useState<string | null>(null);
  const chartOf = (target: EventTarget) =>
    (target as Element).closest<HTMLElement>("[data-chart]")?.dataset.chart ?? null;
  return {
    id: focus ?? hover,
    handlers: {
      onFocus: (event: { target: EventTarget }) => setFocus(chartOf(event.target)),
      onBlur: () => setFocus(null),
      onPointerOver: (event: { target: EventTarget }) => setHover(chartOf(event.target)),
      onPointerLeave: () => setHover(null),
    },
  };
}

/** Limits of the breakpoints on metrics, by metric. */
function useThresholds(theme: string): ReadonlyMap<string, readonly Threshold[]> {
  const breakpoints = useBreakpoints();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme changes the colours
  return useMemo(() => {
    const style = getComputedStyle(document.documentElement);
    const colour = style.getPropertyValue("--warn-mark").trim();
    const textColour = style.getPropertyValue("--warn").trim();
    const limits = new Map<string, Threshold[]>();
    for (const { condition, enabled } of breakpoints) {
      if (!enabled || condition.kind !== "metric") continue;
      const { name, value } = condition;
      const label = formatValue(value, 3);
      limits.set(name, [...(limits.get(name) ?? []), { value, label, colour, textColour }]);
    }
    return limits;
  }, [breakpoints, theme]);
}

function Legend() {
  return (
    <span className="flex items-center gap-3 text-t2">
      <span className="flex items-center gap-1.5">
        <span className="h-0.5 w-3 bg-series-1" />
        train
      </span>
      <span className="flex items-center gap-1.5">
        <span className="h-0.5 w-3 bg-series-2" />
        validation
      </span>
      <span className="flex items-center gap-1.5">
        <svg aria-hidden="true" width="9" height="8" className="text-bad-mark">
          <path d="M4.5 0L9 8H0Z" fill="currentColor" />
        </svg>
        out of range
      </span>
    </span>
  );
}

function ExportAll({ charts }: { charts: readonly ChartSpec[] }) {
  const runId = useRunId();
  const save = async () => {
    if (runId === null) return;
    const fetched = await fetchManySeries(runId, charts.flatMap(namesIn), EXPORTED_POINTS);
    const cells = { name: [] as string[], step: [] as number[], low: [] as number[], high: [] as number[] };
    for (const [name, { step, low, high }] of fetched) {
      for (let index = 0; index < step.length; index += 1) {
        cells.name.push(name);
        cells.step.push(step[index] as number);
        cells.low.push(low[index] as number);
        cells.high.push(high[index] as number);
      }
    }
    const columns = [
      { name: "metric", cells: cells.name },
      { name: "step", cells: cells.step },
      { name: "low", cells: cells.low },
      { name: "high", cells: cells.high },
    ];
    downloadText("charts.csv", csvOf(columns), "text/csv");
  };
  return (
    <ExportMenu
      subject="charts"
      disabledReason={charts.length === 0 ? NOTHING_TO_EXPORT : null}
      items={[{ label: "CSV, all charts listed", onSelect: () => void save() }]}
    />
  );
}

function NoScalars() {
  return (
    <Panel
      title="Charts"
      className="h-full"
      state={{
        kind: "empty",
        title: "No scalars yet",
        text: (
          <>
            Each number that the run logs gets a chart here. Log some in your loop with{" "}
            <code className="font-mono">run.log(loss=loss)</code>, and validation under the same name with{" "}
            <code className="font-mono">val_</code> in front: <code className="font-mono">val_loss</code>.
          </>
        ),
      }}
    />
  );
}
