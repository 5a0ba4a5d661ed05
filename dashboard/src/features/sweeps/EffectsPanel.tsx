/** Effect of each axis: differences of cells that differ in this axis alone, with their mean and interval. */
import { useMemo, useRef } from "react";
import type { SweepCell, SweepEffect, SweepOut } from "@/api/types";
import { SERIES, seriesColour } from "@/charts/colors/seriesColors";
import type { Theme } from "@/charts/colors/viridis";
import { linearSplits, sameDecimals } from "@/charts/ticks";
import { useSize } from "@/charts/useSize";
import { formatFixed, plural } from "@/lib/format";
import { metricTitle } from "@/lib/metricNames";
import { Panel } from "@/ui";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { exportItems } from "@/ui/export/exportItems";
import { numberOf, type SweepGrid } from "./grid";
import { labelOf } from "./SweepGridView";

interface EffectsPanelProps {
  sweep: SweepOut;
  grid: SweepGrid;
  focused: SweepCell | null;
  onFocus: (job: number) => void;
  theme: Theme;
}

export default function EffectsPanel({ sweep, grid, focused, onFocus, theme }: EffectsPanelProps) {
  const [box, size] = useSize<HTMLDivElement>();
  const body = useRef<HTMLDivElement>(null);
  const scale = useMemo(() => scaleOf(sweep.effects), [sweep.effects]);
  const levels = new Map(grid.rowAxis.values.map((level, index) => [level, index]));
  const levelOf = new Map(sweep.grid.map((cell) => [cell.job, cell.choices[grid.rowAxis.key] ?? ""]));
  const colourOf = (job: number) => seriesColour(levels.get(levelOf.get(job) ?? "") ?? SERIES);
  return (
    <Panel
      title="Effect of each axis"
      fact={`on ${metricTitle(sweep.value).toLowerCase()}, paired with the other axes held, 95 %`}
      className="h-full"
      tools={
        <>
          <span className="flex gap-3">
            {grid.rowAxis.values.slice(0, SERIES).map((level, index) => (
              <span key={level} className="flex items-center gap-1.5">
                <span className="size-2 rounded-full" style={{ background: seriesColour(index) }} />
                {level}
              </span>
            ))}
          </span>
          <ExportMenu
            subject="effects"
            items={exportItems(
              `effects-${sweep.name}`,
              () => body.current,
              () => columnsOf(sweep),
              () => sweep.effects,
            )}
          />
        </>
      }
      state={
        scale === null
          ? {
              kind: "empty",
              title: "No pairs yet",
              text: "An effect needs two finished cells that differ in one axis only.",
            }
          : { kind: "data" }
      }
    >
      <div ref={body} className="flex min-h-0 flex-1">
        <div ref={box} className="min-h-0 min-w-0 flex-1 overflow-hidden" data-theme-drawn={theme}>
          {scale && size.width > 0 && (
            <svg
              width={size.width}
              height={size.height}
              role="img"
              aria-label={describe(sweep, scale.decimals)}
            >
              <Axes sweep={sweep} scale={scale} {...size} />
              {sweep.axes.map((axis, index) => (
                <AxisEffects
                  key={axis.key}
                  name={axis.label}
                  levels={axis.values}
                  effects={sweep.effects.filter((one) => one.axis === axis.key)}
                  area={areaOf(index, sweep.axes.length, size)}
                  scale={scale}
                  colourOf={colourOf}
                  focused={focused?.job ?? null}
                  onFocus={onFocus}
                />
              ))}
            </svg>
          )}
        </div>
      </div>
    </Panel>
  );
}

interface Scale {
  low: number;
  high: number;
  ticks: number[];
  decimals: number;
}

/** Over all differences and intervals, with 0 in it; null where there is no pair. */
function scaleOf(effects: readonly SweepEffect[]): Scale | null {
  const values = effects.flatMap(({ pairs, low, high }) => [
    ...pairs.map(({ difference }) => numberOf(difference)),
    numberOf(low),
    numberOf(high),
  ]);
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return null;
  const [low, high] = [Math.min(0, ...finite), Math.max(0, ...finite)];
  const span = high - low || 1;
  const ticks = linearSplits(low, high, 4);
  const step = Math.abs((ticks[1] ?? span) - (ticks[0] ?? 0)) || span;
  const decimals = Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(step))));
  return { low: low - 0.05 * span, high: high + 0.28 * span, ticks, decimals };
}

interface Area {
  left: number;
  width: number;
  top: number;
  bottom: number;
}

const [AXIS, FOOT, GAP] = [52, 36, 16];

function areaOf(index: number, count: number, { width, height }: { width: number; height: number }): Area {
  const each = (width - AXIS - 12 - GAP * (count - 1)) / count;
  return { left: AXIS + index * (each + GAP), width: each, top: 4, bottom: height - FOOT };
}

const yOf = (value: number, { low, high }: Scale, { top, bottom }: Area) =>
  bottom - ((value - low) / (high - low)) * (bottom - top);

function Axes({
  sweep,
  scale,
  width,
  height,
}: {
  sweep: SweepOut;
  scale: Scale;
  width: number;
  height: number;
}) {
  const labels = sameDecimals(scale.ticks);
  const areas = sweep.axes.map((_, index) => areaOf(index, sweep.axes.length, { width, height }));
  const [first] = areas;
  if (first === undefined) return null;
  return scale.ticks.map((tick, index) => {
    const y = yOf(tick, scale, first);
    return (
      <g key={tick}>
        <text x={AXIS - 8} y={y + 4} textAnchor="end" className="fill-[var(--t3)] text-label">
          {tick > 0 ? `+${labels[index]}` : labels[index]}
        </text>
        {areas.map(({ left, width: wide }) => (
          <line
            key={left}
            x1={left}
            x2={left + wide}
            y1={y}
            y2={y}
            stroke={tick === 0 ? "var(--line3)" : "var(--grid)"}
          />
        ))}
      </g>
    );
  });
}

interface AxisEffectsProps {
  name: string;
  levels: readonly string[];
  effects: readonly SweepEffect[];
  area: Area;
  scale: Scale;
  colourOf: (job: number) => string;
  focused: number | null;
  onFocus: (job: number) => void;
}

function AxisEffects(props: AxisEffectsProps) {
  const { name, levels, effects, area, scale, colourOf, focused, onFocus } = props;
  const xOf = (level: string) => area.left + (area.width * (levels.indexOf(level) + 0.5)) / levels.length;
  const room = area.width / levels.length;
  const middle = area.left + area.width / 2;
  return (
    <g>
      {levels.map((level) => (
        <text
          key={level}
          x={xOf(level)}
          y={area.bottom + 16}
          textAnchor="middle"
          className="fill-[var(--t2)] text-label"
        >
          {level}
        </text>
      ))}
      <text x={middle} y={area.bottom + 32} textAnchor="middle" className="fill-[var(--t2)] text-label">
        <tspan className="fill-[var(--text)] font-semibold">{name}</tspan>, against {levels[0]}
      </text>
      <circle
        cx={xOf(levels[0] ?? "")}
        cy={yOf(0, scale, area)}
        r={4.5}
        fill="var(--surface)"
        stroke="var(--t2)"
        strokeWidth={1.5}
      />
      {effects.map((effect) => {
        const x = xOf(effect.level);
        const mean = numberOf(effect.mean);
        if (Number.isNaN(mean)) return null;
        const differences = effect.pairs.map(({ difference }) => numberOf(difference));
        const top = yOf(Math.max(...differences, numberOf(effect.high) || mean), scale, area);
        const bar = x + Math.min(16, room / 4);
        return (
          <g key={effect.level}>
            <text
              x={x}
              y={top - 20}
              textAnchor="middle"
              className="fill-[var(--text)] text-label font-semibold"
            >
              {signed(mean, scale.decimals)}
            </text>
            <text x={x} y={top - 8} textAnchor="middle" className="fill-[var(--t3)] text-label">
              {plural(effect.pairs.length, "pair")}
            </text>
            {effect.pairs.map(({ job, difference }, index) => (
              // biome-ignore lint/a11y/noStaticElementInteractions: the grid above focuses the same cells by keyboard
              <circle
                key={job}
                cx={x + spreadOf(index, Math.min(12, room / 5))}
                cy={yOf(numberOf(difference), scale, area)}
                r={job === focused ? 6 : 3.2}
                fill={colourOf(job)}
                stroke={job === focused ? "var(--text)" : "none"}
                strokeWidth={1.5}
                className="cursor-pointer"
                onClick={() => onFocus(job)}
              />
            ))}
            {effect.low !== null && (
              <g stroke="var(--text)" strokeWidth={1.5}>
                <line
                  x1={bar}
                  x2={bar}
                  y1={yOf(numberOf(effect.low), scale, area)}
                  y2={yOf(numberOf(effect.high), scale, area)}
                />
                <line x1={bar - 5} x2={bar + 5} y1={yOf(mean, scale, area)} y2={yOf(mean, scale, area)} />
              </g>
            )}
          </g>
        );
      })}
    </g>
  );
}

/** Points beside each other, always in the same places. */
const spreadOf = (index: number, room: number) => (((index * 0.618) % 1) - 0.75) * room;

const signed = (value: number, decimals: number) => `${value > 0 ? "+" : ""}${formatFixed(value, decimals)}`;

function describe({ effects }: SweepOut, decimals: number): string {
  const texts = effects.map((effect) => {
    const name = `${labelOf(effect.axis)} ${effect.level} against ${effect.against}`;
    if (effect.mean === null) return `${name}: no pairs`;
    const [low, high] = [effect.low, effect.high].map((end) => formatFixed(numberOf(end), decimals));
    const interval = effect.low === null ? "" : `, interval ${low} to ${high}`;
    return `${name}: ${signed(numberOf(effect.mean), decimals)}${interval}, ${plural(effect.pairs.length, "pair")}`;
  });
  return `${texts.join(". ")}.`;
}

function columnsOf({ effects }: SweepOut) {
  return [
    { name: "axis", cells: effects.map(({ axis }) => axis) },
    { name: "level", cells: effects.map(({ level }) => level) },
    { name: "against", cells: effects.map(({ against }) => against) },
    { name: "mean", cells: effects.map(({ mean }) => numberOf(mean)) },
    { name: "low", cells: effects.map(({ low }) => numberOf(low)) },
    { name: "high", cells: effects.map(({ high }) => numberOf(high)) },
    { name: "pairs", cells: effects.map(({ pairs }) => pairs.length) },
    { name: "seeds", cells: effects.map(({ seeds }) => seeds) },
  ];
}
