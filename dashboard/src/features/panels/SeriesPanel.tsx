/** Numbers over steps, or whole lines that a hook pushed. */
import { useMemo, useRef, useState } from "react";
import { seriesColour } from "@/charts/colors/seriesColors";
import { LineChart } from "@/charts/line";
import { cursorText, extentOf, type Line, linesLabel, type Pointed, type Range } from "@/charts/line/lines";
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
  const [cursor, setCursor] = useState<Pointed | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme changes what the colours are
  const lines = useMemo(() => linesOf(entry, runId), [entry, runId, theme]);
  const bounds = extentOf(lines) ?? [0, 1];
  const [zoom, setZoom] = useState<Range | null>(null);
  const range = zoom ?? bounds;
  const grows = seriesOf(entry).kind === "numbers";
  const fact =
    cursor === null
      ? `${plural(lines.length, "series", "series")} · ${grows ? `to step ${formatCount(entry.step)}` : `step ${formatCount(entry.step)}`}`
      : cursorText(lines, cursor.x);
  return (
    <PanelFrame
      {...props}
      fact={<span aria-live="polite">{fact}</span>}
      tools={<PanelExport entry={entry} container={container} columns={() => lineColumns(lines)} />}
    >
      <div ref={container} className="flex min-h-0 flex-1 px-3 pb-2">
        <LineChart
          label={linesLabel(`${entry.panel.title ?? entry.key}.`, lines, range)}
          lines={lines}
          range={range}
          bounds={bounds}
          onRange={setZoom}
          logY={entry.panel.log_y}
          cursor={cursor}
          onCursor={setCursor}
          theme={theme}
        />
      </div>
    </PanelFrame>
  );
}

/** The lines to draw; numbers are added to what this page has seen of them. */
function linesOf(entry: Hinted, runId: string): Line[] {
  const series = seriesOf(entry);
  const labelOf = (name: string) => entry.panel.fields[name]?.label ?? name;
  if (series.kind === "lines") {
    return series.lines.map(([name, value], index) => ({
      id: name,
      label: labelOf(name),
      x: Float64Array.from({ length: value.length }, (_, index) => index),
      y: value,
      colour: seriesColour(index),
    }));
  }
  const history = historyOf(runId, entry.key);
  history.push(entry.step, series.values);
  return [...history.tracks].map(([name, { step, value }], index) => ({
    id: name,
    label: labelOf(name),
    x: Float64Array.from(step),
    y: Float64Array.from(value),
    colour: seriesColour(index),
  }));
}

function lineColumns(lines: readonly Line[]) {
  return lines.flatMap(({ id, x, y }) => [
    { name: `${id} step`, cells: x },
    { name: id, cells: y },
  ]);
}
