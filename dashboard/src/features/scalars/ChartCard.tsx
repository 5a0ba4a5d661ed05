/** One small chart: name and pin, values at the shared cursor, lines. */
import { memo, useMemo, useRef, useState, useSyncExternalStore } from "react";
import type { CurveAxis } from "@/api/scalars";
import type { Theme } from "@/charts/colors/viridis";
import { LineChart } from "@/charts/line";
import type { CursorSync } from "@/charts/line/cursorSync";
import type { Line, Pointed, Range, Threshold } from "@/charts/line/lines";
import { countOutside, robustLimits } from "@/charts/line/robust";
import { downloadBlob, downloadText } from "@/lib/download";
import { formatCount } from "@/lib/format";
import { NOTHING_TO_EXPORT } from "@/lib/messages";
import { IconButton } from "@/ui";
import { csvOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { panelToPng } from "@/ui/export/panelToPng";
import { axisPoint, narrowestOf, X_TEXTS } from "./axisText";
import { abandonedOf, chartLines, leftText, outsideText, shortValue, valueAt } from "./chartLines";
import { type ChartSpec, namesIn } from "./chartPairs";
import { timeUnit } from "./curveValues";
import type { ChartPoints } from "./useChartData";

interface ChartCardProps {
  spec: ChartSpec;
  points: (name: string) => ChartPoints | null;
  /** Changes when there is more to draw. */
  version: unknown;
  weight: number;
  robust: boolean;
  axis: CurveAxis;
  /** Shown part of the axis, and all of it. */
  range: Range;
  bounds: Range;
  onRange: (range: Range | null) => void;
  sync: CursorSync;
  thresholds: readonly Threshold[];
  theme: Theme;
  pinned: boolean;
  onPin: (id: string) => void;
}

export const ChartCard = memo(function ChartCard(props: ChartCardProps) {
  const { spec, points, version, weight, robust, axis, range, bounds, onRange, sync, theme } = props;
  const [cursor, setCursor] = useState<Pointed | null>(null);
  const body = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: columns grow in place; the theme changes the colours
  const lines = useMemo(
    () => chartLines(spec, points, weight, robust),
    [spec, points, version, weight, robust, theme],
  );
  // biome-ignore lint/correctness/useExhaustiveDependencies: the version says when the run went back
  const left = useMemo(() => abandonedOf(spec, points), [spec, points, version, theme]);
  const drawn = useMemo(() => (left.length > 0 ? [...lines, ...left] : lines), [lines, left]);
  const limits = useMemo(() => (robust ? robustLimits(lines, false) : null), [lines, robust]);
  const outside = useMemo(() => countOutside(lines, limits, range), [lines, limits, range]);
  const exact = namesIn(spec).every((name) => points(name)?.exact !== false);
  const note = outsideText(outside, exact);
  const span = range[1] - range[0];
  return (
    <section
      aria-label={spec.id}
      className="group flex h-full min-w-0 flex-col rounded-control bg-surface pb-1 ring-line2 ring-inset focus-within:ring-1 hover:ring-1"
    >
      <header className="flex h-7 shrink-0 items-center gap-1 pt-1 pr-1.5 pl-2.5">
        <h3 className="min-w-0 truncate font-semibold" title={namesIn(spec).join(", ")}>
          {spec.id}
        </h3>
        <div data-tools="" className="ml-auto flex items-center">
          <span className="opacity-0 group-focus-within:opacity-100 group-hover:opacity-100">
            <ExportMenu
              subject={spec.id}
              disabledReason={lines.length === 0 ? NOTHING_TO_EXPORT : null}
              items={[
                { label: "CSV, every point", onSelect: () => saveCsv(spec.id, axis, lines) },
                { label: "PNG, as shown", onSelect: () => void savePng(spec.id, body.current) },
              ]}
            />
          </span>
          <IconButton
            icon="pin"
            iconFilled={props.pinned}
            label={props.pinned ? `Unpin ${spec.id}` : `Pin ${spec.id}`}
            keys="P"
            pressed={props.pinned}
            onClick={() => props.onPin(spec.id)}
            className={props.pinned ? "bg-transparent! text-accent!" : "text-line3!"}
          />
        </div>
      </header>
      <div className="flex h-4 shrink-0 items-center gap-2 px-2.5">
        <Values lines={lines} sync={sync} reads={cursor !== null} />
        {note !== "" && <span className="ml-auto truncate text-bad">{note}</span>}
      </div>
      <div ref={body} className="flex min-h-0 flex-1 flex-col pl-1.5">
        {lines.length === 0 ? (
          <p className="px-1 py-2 text-t3">No points over this axis yet.</p>
        ) : (
          <LineChart
            label={chartLabel(spec, axis, lines, note) + leftText(left)}
            lines={drawn}
            range={range}
            bounds={bounds}
            onRange={onRange}
            narrowest={narrowestOf(axis, bounds)}
            limits={limits}
            thresholds={props.thresholds}
            cursor={cursor}
            onCursor={setCursor}
            cursorText={(x) => axisPoint(axis, x, span)}
            sync={sync}
            wheelScrolls
            xText={X_TEXTS[axis]}
            xUnit={axis === "time" ? timeUnit : undefined}
            theme={theme}
          />
        )}
      </div>
    </section>
  );
});

interface ValuesProps {
  lines: readonly Line[];
  sync: CursorSync;
  /** Whether they are read out: of all charts, only the one with the cursor speaks. */
  reads: boolean;
}

/** What was measured at the cursor, which may be in another chart; the last values while there is none. */
function Values({ lines, sync, reads }: ValuesProps) {
  const x = useSyncExternalStore(
    (listener) => sync.subscribe(listener),
    () => sync.x,
  );
  return (
    <span aria-live={reads ? "polite" : undefined} className="flex shrink-0 gap-2">
      {lines.map((line) => {
        const value = valueAt(line, x);
        const isBad = value !== null && !Number.isFinite(value);
        return (
          <span key={line.id} style={{ color: isBad ? "var(--bad)" : line.textColour }}>
            <span className="sr-only">{line.id} </span>
            {shortValue(value, line.id)}
          </span>
        );
      })}
    </span>
  );
}

function chartLabel(spec: ChartSpec, axis: CurveAxis, lines: readonly Line[], note: string): string {
  const count = lines.reduce((sum, line) => sum + line.x.length, 0);
  const beyond = note === "" ? "" : ` Out of range: ${note}.`;
  return `${namesIn(spec).join(" and ")} over ${axis}: ${formatCount(count)} points.${beyond}`;
}

function saveCsv(name: string, axis: CurveAxis, lines: readonly Line[]): void {
  const columns = lines.flatMap((line) => [
    { name: lines.length > 1 ? `${axis} of ${line.id}` : axis, cells: line.x },
    { name: line.id, cells: line.raw ?? line.y },
    ...(line.raw ? [{ name: `${line.id} smoothed`, cells: line.y }] : []),
  ]);
  downloadText(`${fileName(name)}.csv`, csvOf(columns), "text/csv");
}

async function savePng(name: string, inside: Element | null): Promise<void> {
  const blob = await panelToPng(inside);
  if (blob !== null) downloadBlob(`${fileName(name)}.png`, blob);
}

/** Names of scalars may have a slash in them. */
const fileName = (name: string) => name.replaceAll(/[^\w.-]+/g, "-");
