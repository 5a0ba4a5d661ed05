/** Numbers over steps, or whole lines that a hook pushed. */
import { useMemo, useRef, useState } from "react";
import { seriesColour } from "@/charts/colors/seriesColors";
import { cursorText, LinesChart } from "@/charts/line/LinesChart";
import { type Line, stepExtent } from "@/charts/line/lines";
import { formatCount, plural } from "@/lib/format";
import { type Hinted, seriesOf } from "./hint";
import { PanelExport, PanelFrame, type PanelFrameProps } from "./PanelFrame";
import { historyOf } from "./seriesHistory";

interface SeriesPanelProps extends PanelFrameProps {
  runId: string;
}

export function SeriesPanel(props: SeriesPanelProps) {
  const { entry, runId, theme } = props;
  const container = useRef<HTMLDivElement>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme changes what the colours are
  const lines = useMemo(() => linesOf(entry, runId), [entry, runId, theme]);
  const range = stepExtent(lines) ?? [0, 1];
  const grows = seriesOf(entry).kind === "numbers";
  const fact =
    cursor === null
      ? `${plural(lines.length, "series", "series")} · ${grows ? `to step ${formatCount(entry.step)}` : `step ${formatCount(entry.step)}`}`
      : cursorText(lines, cursor);
  return (
    <PanelFrame
      {...props}
      fact={<span aria-live="polite">{fact}</span>}
      tools={<PanelExport entry={entry} container={container} columns={() => lineColumns(lines)} />}
    >
      <div ref={container} className="flex min-h-0 flex-1 px-3 pb-2">
        <LinesChart
          label={`${entry.panel.title ?? entry.key}.`}
          lines={lines}
          range={range}
          thresholds={NO_THRESHOLDS}
          logY={entry.panel.log_y}
          cursor={cursor}
          onCursor={setCursor}
          theme={theme}
        />
      </div>
    </PanelFrame>
  );
}

const NO_THRESHOLDS: readonly never[] = [];

/** The lines to draw; numbers are added to what this page has seen of them. */
function linesOf(entry: Hinted, runId: string): Line[] {
  const series = seriesOf(entry);
  const labelOf = (name: string) => entry.panel.fields[name]?.label ?? name;
  if (series.kind === "lines") {
    return series.lines.map(([name, value], index) => ({
      id: name,
      label: labelOf(name),
      step: Float64Array.from({ length: value.length }, (_, index) => index),
      value,
      colour: seriesColour(index),
    }));
  }
  const history = historyOf(runId, entry.key);
  history.push(entry.step, series.values);
  return [...history.tracks].map(([name, { step, value }], index) => ({
    id: name,
    label: labelOf(name),
    step: Float64Array.from(step),
    value: Float64Array.from(value),
    colour: seriesColour(index),
  }));
}

function lineColumns(lines: readonly Line[]) {
  return lines.flatMap(({ id, step, value }) => [
    { name: `${id} step`, cells: step },
    { name: id, cells: value },
  ]);
}
