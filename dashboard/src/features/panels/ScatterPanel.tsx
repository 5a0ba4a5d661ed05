/** Columns as points: two of them are the axes, a third one colours. */
import { useMemo, useRef, useState } from "react";
import { magnitude, markGradient } from "@/charts/colors/viridis";
import { Scatter } from "@/charts/points/Scatter";
import { formatCount, formatValue } from "@/lib/format";
import { summarise } from "@/lib/statistics";
import { columnsOf, numbersOf } from "./hint";
import { PanelExport, PanelFrame, type PanelFrameProps } from "./PanelFrame";

interface ScatterPanelProps extends PanelFrameProps {
  selected: number | null;
  onSelect: (row: number) => void;
  watched: readonly number[];
}

export function ScatterPanel(props: ScatterPanelProps) {
  const { entry, selected, onSelect, watched, theme } = props;
  const { panel } = entry;
  const container = useRef<HTMLDivElement>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const columns = useMemo(() => columnsOf(entry), [entry]);
  const column = (name: string | null) => columns.find((one) => one.name === name);
  const [xColumn, yColumn, hue, names] = [panel.x, panel.y, panel.colour, panel.label].map(column);
  const x = useMemo(() => numbersOf(xColumn), [xColumn]);
  const y = useMemo(() => numbersOf(yColumn), [yColumn]);
  const colours = useMemo(() => {
    if (hue === undefined) return null;
    const values = numbersOf(hue);
    const { minimum, maximum } = summarise(values);
    const units = Float64Array.from(values, (value) =>
      Number.isFinite(value) ? magnitude(value, Math.min(minimum, 0), maximum) : Number.NaN,
    );
    return { units, low: Math.min(minimum, 0), high: maximum };
  }, [hue]);
  const nameOf = (row: number) => String(names?.cells[row] ?? row);
  const shown = hovered ?? selected;
  const fact =
    shown === null || shown >= x.length
      ? `${formatCount(x.length)} points · step ${formatCount(entry.step)}`
      : `${nameOf(shown)}: ${formatValue(x[shown])}, ${formatValue(y[shown])}`;
  const tools = (
    <>
      {colours && hue && (
        <span className="flex items-center gap-2 text-label text-t3">
          {hue.title ?? hue.name} {formatValue(colours.low, 2)}
          <span className="h-2 w-16 rounded-mark" style={{ background: markGradient(theme) }} />
          {formatValue(colours.high, 2)}
        </span>
      )}
      <PanelExport entry={entry} container={container} columns={() => columns} />
    </>
  );
  return (
    <PanelFrame {...props} fact={fact} tools={tools}>
      <div ref={container} className="flex min-h-0 flex-1 px-3 pb-2">
        <Scatter
          label={`${panel.title ?? entry.key}: ${panel.y} against ${panel.x}, ${x.length} points.`}
          x={x}
          y={y}
          xLabel={xColumn?.title ?? panel.x ?? ""}
          yLabel={yColumn?.title ?? panel.y ?? ""}
          logX={panel.log_x}
          logY={panel.log_y}
          colour={colours?.units ?? null}
          nameOf={nameOf}
          named={watched.filter((row) => row < x.length)}
          selected={selected !== null && selected < x.length ? selected : null}
          onSelect={onSelect}
          onHover={setHovered}
          theme={theme}
        />
      </div>
    </PanelFrame>
  );
}
