/** Watched features over the steps: one line and one colour each, and how alike they are. */
import { useEffect, useMemo, useRef, useState } from "react";
import { api } from "@/api/client";
import { ColorAssignments, seriesColour, seriesTextColour } from "@/charts/colors/seriesColors";
import { Brush } from "@/charts/line/Brush";
import { cursorText, LinesChart } from "@/charts/line/LinesChart";
import { type Line, type Range, stepExtent, type Threshold } from "@/charts/line/lines";
import { downloadBlob, downloadText } from "@/lib/download";
import { COS_TO_START, type RowNames } from "@/lib/rowNames";
import type { StatusRule, StatusTone } from "@/lib/rowStatus";
import { useTheme } from "@/lib/theme";
import { useUrlState } from "@/lib/urlState";
import { useNoCommandsReason, useRunId } from "@/live/hooks";
import {
  ALL_POINTS,
  clearTrajectories,
  fetchTrajectories,
  type SourceTracks,
  type Track,
  type Trajectories,
  useTrajectories,
} from "@/live/trajectories";
import { addWatches, noteWatched, removeWatch, useWatchList } from "@/live/watches";
import { ConfirmDialog, IconButton, Menu, type MenuItem, Panel, Segmented } from "@/ui";
import { csvOf, jsonOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { panelToPng } from "@/ui/export/panelToPng";
import { PairMatrix } from "./PairMatrix";
import { metricsOf, metricWords, PAIRS, pairLines, rowLines, tableOf } from "./tracks";
import { WatchChips } from "./WatchChips";

interface FeatureTrajectoryProps {
  /** The tensor that the page shows; its rows are watched when one types ids. */
  tensor: string | null;
  names: RowNames;
  /** How a metric is judged: its limits are drawn. */
  rule: StatusRule | null;
  /** A click on a line selects its row. */
  onSelect: (feature: number) => void;
  stale: string | null;
}

/** Metrics that stand in the header; the others are in a menu. */
const IN_HEADER = 5;

export default function FeatureTrajectory({ tensor, names, rule, onSelect, stale }: FeatureTrajectoryProps) {
  const theme = useTheme();
  const runId = useRunId();
  const disabledReason = useNoCommandsReason();
  const container = useRef<HTMLDivElement>(null);
  const latest = useTrajectories();
  const watches = useWatchList();
  const [metricName, setMetric] = useUrlState("track", "");
  const [rangeText, setRange] = useUrlState("steps", "");
  const [pair, setPair] = useState<string | null>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  const [clearing, setClearing] = useState(false);
  const source = sourceOf(latest.data, watches.source, tensor);
  const tracks = useMemo(() => tracksOf(latest.data, source), [latest.data, source]);
  useEffect(() => {
    for (const each of latest.data?.sources ?? []) noteWatched(each.source, each.watched);
  }, [latest.data]);
  const [colours] = useState(() => new ColorAssignments());
  const watched = (source === null ? undefined : watches.ids[source]) ?? tracks.watched;
  const metrics = metricsOf(tracks, names.order);
  const metric =
    metricName === PAIRS || metrics.includes(metricName) ? metricName : (metrics[0] ?? COS_TO_START);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme changes what the colours are
  const drawn = useMemo(() => {
    colours.keep(watched.map(String));
    for (const id of watched) colours.slotOf(String(id));
    const of = (id: number) => seriesColour(colours.slotOf(String(id)));
    const style = getComputedStyle(document.documentElement);
    const read = (name: string) => style.getPropertyValue(name).trim();
    const palette = { of, removed: read("--t3"), faint: read("--line2") };
    const lines = metric === PAIRS ? pairLines(tracks, pair, palette) : rowLines(tracks, metric, palette);
    return { lines, thresholds: metric === rule?.field ? thresholdsOf(rule, read) : NO_THRESHOLDS };
  }, [tracks, watched, metric, pair, rule, theme, colours]);
  const extent = stepExtent(drawn.lines);
  const range = rangeOf(rangeText, extent);
  const colourOf = (id: number) => seriesColour(colours.slotOf(String(id)));
  const textOf = (id: number) => seriesTextColour(colours.slotOf(String(id)));
  const tools = (
    <>
      {cursor !== null && (
        <span aria-live="polite" className="max-w-80 truncate text-label text-t2">
          {cursorText(drawn.lines, cursor)}
        </span>
      )}
      {metrics.length > 0 && <MetricChoice {...{ metrics, metric, names }} onMetric={setMetric} />}
      <ExportMenu
        subject="trajectories"
        disabledReason={tracks.rows.size ? null : "Nothing was watched yet"}
        items={[
          ...exportsOf(runId ?? "", source ?? "", names, () => panelToPng(container.current)),
          "line",
          { label: "Clear all lines…", danger: true, disabledReason, onSelect: () => setClearing(true) },
        ]}
      />
    </>
  );
  const chips = (
    <span className="flex min-w-0 items-center gap-2">
      <SourceMenu data={latest.data} source={source} />
      <WatchChips
        {...{ watched, colourOf, disabledReason }}
        onAdd={(ids) => void addWatches(ids, source)}
        onRemove={(id) => source !== null && void removeWatch(id, source)}
      />
    </span>
  );
  return (
    <Panel title="Trajectories" fact={chips} stale={stale} tools={tools} className="h-full">
      <div ref={container} className="flex min-h-0 flex-1 gap-4 px-3 pb-2">
        {extent === null || range === null ? (
          <Empty watched={watched.length} error={latest.error?.message ?? null} />
        ) : (
          <div className="flex min-h-0 min-w-0 flex-1 flex-col" data-points={longest(drawn.lines)}>
            <LinesChart
              label={`${metricWords(metric, names)} of the watched rows.`}
              lines={drawn.lines}
              range={range}
              thresholds={drawn.thresholds}
              cursor={cursor}
              onCursor={setCursor}
              onPick={(id) => (metric === PAIRS ? setPair(id) : onSelect(Number(id)))}
              theme={theme}
            />
            <div className="pr-11 pl-10">
              <Brush
                lines={drawn.lines}
                extent={extent}
                range={range}
                onRange={(next) => setRange(next === null ? "" : next.join("-"))}
                theme={theme}
              />
            </div>
          </div>
        )}
        <div className="w-[188px] shrink-0 overflow-hidden">
          <PairMatrix
            tracks={tracks}
            colourOf={textOf}
            chosen={metric === PAIRS ? pair : null}
            onChoose={(next) => {
              setPair(next);
              setMetric(next === null && metric === PAIRS ? "" : PAIRS);
            }}
            theme={theme}
          />
        </div>
      </div>
      {clearing && (
        <ConfirmDialog
          title="Clear all lines?"
          text="Deletes all recorded points, also of rows you no longer watch. Watched rows continue from here."
          safe="Keep lines"
          verb="Clear lines"
          onConfirm={() => void clearTrajectories(runId ?? "").then(() => setRange(""))}
          onClose={() => setClearing(false)}
        />
      )}
    </Panel>
  );
}

const NO_THRESHOLDS: readonly Threshold[] = [];
const NO_TRACKS: SourceTracks = { source: "", watched: [], rows: new Map(), pairs: new Map() };

/** The tensor whose rows are drawn: the one that was chosen last, else the page's. */
function sourceOf(data: Trajectories | null, chosen: string | null, tensor: string | null): string | null {
  return chosen ?? data?.sources.find(({ source }) => source !== "")?.source ?? tensor;
}

function tracksOf(data: Trajectories | null, source: string | null): SourceTracks {
  return data?.sources.find((each) => each.source === source) ?? NO_TRACKS;
}

/** How many points the longest line has. */
function longest(lines: readonly Line[]): number {
  return lines.reduce((most, { step }) => Math.max(most, step.length), 0);
}

/** The steps in the address, kept inside what there is; everything otherwise. */
export function rangeOf(text: string, extent: Range | null): Range | null {
  if (extent === null) return null;
  const match = /^(\d+)-(\d+)$/.exec(text);
  if (!match) return extent;
  const from = Math.max(Number(match[1]), extent[0]);
  const to = Math.min(Number(match[2]), extent[1]);
  return to > from ? [from, to] : extent;
}

const TONES: Record<StatusTone, readonly [mark: string, text: string]> = {
  good: ["--ok-mark", "--ok"],
  warn: ["--warn-mark", "--warn"],
  bad: ["--bad-mark", "--bad"],
  neutral: ["--line3", "--t3"],
};

/** The limits of the levels as dotted lines in their colours. */
function thresholdsOf(rule: StatusRule, read: (name: string) => string): Threshold[] {
  return rule.levels.flatMap(({ below, above, tone }) =>
    [below, above].flatMap((value) => {
      const [mark, text] = TONES[tone];
      return value === null
        ? []
        : [{ value, label: String(value), colour: read(mark), textColour: read(text) }];
    }),
  );
}

function MetricChoice({
  metrics,
  metric,
  names,
  onMetric,
}: {
  metrics: readonly string[];
  metric: string;
  names: RowNames;
  onMetric: (metric: string) => void;
}) {
  const first = metrics.slice(0, IN_HEADER);
  const rest = metrics.slice(IN_HEADER);
  const choices = [...first, ...(rest.includes(metric) ? [metric] : []), PAIRS];
  return (
    <>
      <Segmented
        label="Metric"
        value={metric}
        choices={choices.map((value) => ({ value, label: metricWords(value, names) }))}
        onChange={onMetric}
      />
      {rest.length > 0 && (
        <Menu
          heading="Other metrics"
          trigger={<IconButton icon="more" label="Other metrics" />}
          items={rest.map((name) => ({
            label: metricWords(name, names),
            checked: name === metric,
            onSelect: () => onMetric(name),
          }))}
        />
      )}
    </>
  );
}

/** Other tensors that have lines. */
function SourceMenu({ data, source }: { data: Trajectories | null; source: string | null }) {
  const others = (data?.sources ?? []).filter((each) => each.source !== "");
  if (others.length < 2) return null;
  return (
    <Menu
      align="start"
      heading="Rows of"
      trigger={<IconButton icon="chevronDown" label="Choose a tensor" className="-mx-1" />}
      items={others.map((each) => ({
        label: each.source,
        checked: each.source === source,
        onSelect: () => void addWatches([], each.source),
      }))}
    />
  );
}

function Empty({ watched, error }: { watched: number; error: string | null }) {
  const text =
    error ??
    (watched
      ? "Take one step to draw the first point."
      : "Click an id in the table, select a row and press W, or type row numbers under Watch.");
  return (
    <div className="min-w-0 flex-1">
      <p className="font-medium">{watched ? "No points yet" : "Nothing is watched"}</p>
      <p className="mt-1 max-w-prose text-t2">{text}</p>
    </div>
  );
}

/** Files hold every point that the run keeps, not only those drawn. */
function exportsOf(
  runId: string,
  source: string,
  { order }: RowNames,
  png: () => Promise<Blob | null>,
): MenuItem[] {
  const all = async () => tracksOf(await fetchTrajectories(api, runId, ALL_POINTS), source);
  const name = `trajectories-${source || "rows"}`;
  return [
    { label: "PNG", onSelect: () => void png().then((blob) => blob && downloadBlob(`${name}.png`, blob)) },
    {
      label: "CSV, every point",
      onSelect: () =>
        void all().then((tracks) => downloadText(`${name}.csv`, csvOf(tableOf(tracks, order)), "text/csv")),
    },
    {
      label: "JSON, every point",
      onSelect: () =>
        void all().then((tracks) => downloadText(`${name}.json`, jsonOf(plain(tracks)), "application/json")),
    },
  ];
}

function plain({ source, watched, rows, pairs }: SourceTracks) {
  const listed = (tracks: Iterable<readonly [string | number, Track]>) =>
    Object.fromEntries(
      [...tracks].map(([id, { step, columns }]) => [
        id,
        {
          step: Array.from(step),
          ...Object.fromEntries([...columns].map(([name, cells]) => [name, Array.from(cells)])),
        },
      ]),
    );
  return { source, watched, trajectories: listed(rows), pairwise: listed(pairs) };
}
