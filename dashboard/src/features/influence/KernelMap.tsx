/** Evaluated sequences against those of the update: weights on top, prompts around, the change of each on the right. */
import { type ReactNode, useMemo, useState } from "react";
import { fromWire } from "@/api/types";
import { signed } from "@/charts/colors/signed";
import { css, type Theme } from "@/charts/colors/viridis";
import { HeatMap } from "@/charts/heatmap/HeatMap";
import { symmetricScale } from "@/charts/heatmap/heatScale";
import { type HeatCell, type HeatWindow, wholeWindow, wideArea } from "@/charts/heatmap/heatWindow";
import { MarginMarks, type Mark } from "@/charts/heatmap/MarginMarks";
import { useSize } from "@/charts/useSize";
import { formatValue } from "@/lib/format";
import type { InfluenceData } from "./influenceData";
import { promptGroups } from "./prompts";

interface KernelMapProps {
  influence: InfluenceData;
  /** What each prompt is called. */
  names: ReadonlyMap<string, string>;
  /** In the order of the kernel. */
  cells: Float32Array;
  largest: number;
  order: { rows: number[]; columns: number[] };
  /** Index of the selected row, in the order of the kernel. */
  selected: number;
  onSelect: (row: number) => void;
  onColumn: (column: number) => void;
  theme: Theme;
}

const LEFT = 76;
const RIGHT = 64;
const TOP = 24;
const BOTTOM = 20;
const STRIP = 7;
const LINE = 12;

export function KernelMap(props: KernelMapProps) {
  const { influence, names, cells, largest, order, selected, theme } = props;
  const [container, size] = useSize<HTMLDivElement>();
  const [cursor, setCursor] = useState<HeatCell | null>(null);
  const [window, setWindow] = useState<HeatWindow | null>(null);
  const rows = order.rows.length;
  const columns = order.columns.length;
  const matrix = useMemo(
    () => ({ rows, columns, values: arranged(cells, order) }),
    [cells, order, rows, columns],
  );
  const scale = useMemo(() => symmetricScale(largest, theme), [largest, theme]);
  const room = { width: size.width - LEFT - RIGHT, height: size.height - TOP - BOTTOM };
  const area = wideArea(rows, columns, room);
  const shown = window ?? wholeWindow(rows, columns);
  const down = (row: number) => ((row - shown.row) / shown.rows) * area.height;
  const across = (column: number) => ((column - shown.column) / shown.columns) * area.width;
  const box = { left: LEFT, top: TOP, width: area.width, height: area.height };
  const at = order.rows.indexOf(selected);
  const pick = ({ row, column }: HeatCell) => {
    const [picked, by] = [order.rows[row], order.columns[column]];
    if (picked !== undefined) props.onSelect(picked);
    if (by !== undefined) props.onColumn(by);
  };
  const readout = cursor && <Readout influence={influence} cell={cursor} order={order} cells={cells} />;
  return (
    <div ref={container} className="relative min-h-0 flex-1">
      {area.width > 0 && (
        <>
          <span
            className="absolute left-0 truncate text-right text-label text-t3"
            style={{ top: 2, width: LEFT - 8 }}
          >
            weight
          </span>
          <MarginMarks
            className="absolute"
            style={{ left: LEFT, top: TOP - STRIP - 3 }}
            width={area.width}
            height={STRIP}
            marks={weightMarks(influence, order.columns, across, theme)}
          />
          <span className="absolute text-label text-t3" style={{ left: LEFT + area.width + 8, top: 2 }}>
            Δ log π
          </span>
          <MarginMarks
            className="absolute"
            style={{ left: LEFT + area.width + 8, top: TOP }}
            width={RIGHT - 8}
            height={area.height}
            marks={changeMarks(influence, order.rows, down, RIGHT - 8, theme)}
          />
          <div className="absolute flex" style={box}>
            <HeatMap
              label={`Kernel of ${rows} evaluated sequences by ${columns} of the update. Enter selects a row.`}
              wide
              {...{ matrix, scale, theme, window, cursor, readout }}
              onCursor={setCursor}
              onWindow={setWindow}
              onPick={pick}
            />
          </div>
          {at >= 0 && down(at) > -1 && down(at) < area.height && (
            <span
              className="pointer-events-none absolute rounded-mark border border-accent"
              style={{
                left: LEFT - 2,
                width: area.width + 4,
                top: TOP + down(at) - 1,
                height: area.height / shown.rows + 2,
              }}
            />
          )}
          <Names
            groups={promptGroups(influence.batch.sequences, order.rows, names)}
            position={(group) => ({
              top: TOP + (down(group.from) + down(group.from + group.count)) / 2 - 8,
              left: 0,
            })}
            room={({ top }) => top >= TOP - 8 && top <= TOP + area.height - 8}
            gap={(a, b) => b.top - a.top >= LINE}
            className="w-17 text-right"
          />
          <Names
            groups={promptGroups(influence.result.update, order.columns, names)}
            position={(group) => ({
              top: TOP + area.height + 3,
              left: LEFT + (across(group.from) + across(group.from + group.count)) / 2 - 32,
            })}
            room={({ left }) => left >= LEFT - 32 && left <= LEFT + area.width - 32}
            gap={(a, b) => b.left - a.left >= 60}
            className="w-16 text-center"
          />
        </>
      )}
    </div>
  );
}

interface Group {
  from: number;
  count: number;
  name: string;
}

interface Position {
  left: number;
  top: number;
}

interface NamesProps {
  groups: readonly Group[];
  position: (group: Group) => Position;
  room: (position: Position) => boolean;
  gap: (before: Position, after: Position) => boolean;
  className: string;
}

/** Names of prompts beside the map, as many as there is room for. */
function Names({ groups, position, room, gap, className }: NamesProps) {
  const shown: (Group & { at: Position })[] = [];
  for (const group of groups) {
    const at = position(group);
    const last = shown.at(-1);
    if (room(at) && (last === undefined || gap(last.at, at))) shown.push({ ...group, at });
  }
  return shown.map(({ from, name, at }) => (
    <span key={from} className={`absolute truncate text-label text-t3 ${className}`} style={at} title={name}>
      {name}
    </span>
  ));
}

function arranged(cells: Float32Array, { rows, columns }: KernelMapProps["order"]): Float32Array {
  const ordered = new Float32Array(cells.length);
  rows.forEach((row, r) => {
    columns.forEach((column, c) => {
      ordered[r * columns.length + c] = cells[row * columns.length + column] as number;
    });
  });
  return ordered;
}

function weightMarks(
  { result }: InfluenceData,
  columns: readonly number[],
  across: (column: number) => number,
  theme: Theme,
): Mark[] {
  const weights = columns.map((column) => fromWire(result.update[column]?.weight) ?? 0);
  const largest = Math.max(...weights.map(Math.abs), 1e-300);
  return weights.map((weight, index) => ({
    x: across(index),
    y: 0,
    width: across(index + 1) - across(index),
    height: STRIP,
    colour: css(signed(weight / largest, theme)),
  }));
}

function changeMarks(
  { batch }: InfluenceData,
  rows: readonly number[],
  down: (row: number) => number,
  room: number,
  theme: Theme,
): Mark[] {
  const changes = rows.map((row) => fromWire(batch.sequences[row]?.delta.total) ?? Number.NaN);
  const largest = Math.max(...changes.filter(Number.isFinite).map(Math.abs), 1e-300);
  const middle = changes.some((value) => value < 0) ? room / 2 : 0;
  const scale = (room - middle - 2) / largest;
  return changes.map((change, index) => {
    const length = Number.isFinite(change) ? change * scale : 0;
    const height = down(index + 1) - down(index);
    return {
      x: middle + Math.min(length, 0),
      y: down(index) + Math.min(1, height / 4),
      width: Math.max(Math.abs(length), 0.5),
      height: Math.max(height - Math.min(2, height / 2), 0.5),
      colour: css(signed(change > 0 ? 0.55 : -0.55, theme)),
    };
  });
}

function Readout({
  influence,
  cell,
  order,
  cells,
}: Pick<KernelMapProps, "influence" | "order" | "cells"> & { cell: HeatCell }): ReactNode {
  const [row, column] = [order.rows[cell.row], order.columns[cell.column]];
  const evaluated = row === undefined ? undefined : influence.batch.sequences[row];
  const by = column === undefined ? undefined : influence.result.update[column];
  if (evaluated === undefined || by === undefined || row === undefined || column === undefined) return null;
  return (
    <span aria-live="polite">
      <span className="block font-mono">
        {evaluated.sequence_id} by {by.sequence_id}
      </span>
      <span className="block font-medium">{formatValue(cells[row * order.columns.length + column])}</span>
      <span className="block text-t2">advantage {formatValue(fromWire(by.advantage), 3)}</span>
    </span>
  );
}
