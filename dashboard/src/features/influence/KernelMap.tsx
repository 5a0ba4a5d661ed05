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
import type { Study } from "./influenceData";
import { promptGroups } from "./prompts";

interface KernelMapProps {
  study: Study;
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
  const { study, names, cells, largest, order, selected, theme } = props;
  const [place, size] = useSize<HTMLDivElement>();
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
  const readout = cursor && <Readout study={study} cell={cursor} order={order} cells={cells} />;
  return (
    <div ref={place} className="relative min-h-0 flex-1">
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
            marks={weightMarks(study, order.columns, across, theme)}
          />
          <span className="absolute text-label text-t3" style={{ left: LEFT + area.width + 8, top: 2 }}>
            Δ log π
          </span>
          <MarginMarks
            className="absolute"
            style={{ left: LEFT + area.width + 8, top: TOP }}
            width={RIGHT - 8}
            height={area.height}
            marks={changeMarks(study, order.rows, down, RIGHT - 8, theme)}
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
            groups={promptGroups(study.batch.sequences, order.rows, names)}
            place={(group) => ({
              top: TOP + (down(group.from) + down(group.from + group.count)) / 2 - 8,
              left: 0,
            })}
            room={(place) => place.top >= TOP - 8 && place.top <= TOP + area.height - 8}
            gap={(a, b) => b.top - a.top >= LINE}
            className="w-17 text-right"
          />
          <Names
            groups={promptGroups(study.result.update, order.columns, names)}
            place={(group) => ({
              top: TOP + area.height + 3,
              left: LEFT + (across(group.from) + across(group.from + group.count)) / 2 - 32,
            })}
            room={(place) => place.left >= LEFT - 32 && place.left <= LEFT + area.width - 32}
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

interface Place {
  left: number;
  top: number;
}

interface NamesProps {
  groups: readonly Group[];
  place: (group: Group) => Place;
  room: (place: Place) => boolean;
  gap: (before: Place, after: Place) => boolean;
  className: string;
}

/** Names of prompts beside the map, as many as there is room for. */
function Names({ groups, place, room, gap, className }: NamesProps) {
  const shown: (Group & { at: Place })[] = [];
  for (const group of groups) {
    const at = place(group);
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
  const made = new Float32Array(cells.length);
  rows.forEach((row, r) => {
    columns.forEach((column, c) => {
      made[r * columns.length + c] = cells[row * columns.length + column] as number;
    });
  });
  return made;
}

function weightMarks(
  { result }: Study,
  columns: readonly number[],
  across: (column: number) => number,
  theme: Theme,
): Mark[] {
  const weights = columns.map((column) => fromWire(result.update[column]?.weight) ?? 0);
  const largest = Math.max(...weights.map(Math.abs), 1e-300);
  return weights.map((weight, place) => ({
    x: across(place),
    y: 0,
    width: across(place + 1) - across(place),
    height: STRIP,
    colour: css(signed(weight / largest, theme)),
  }));
}

function changeMarks(
  { batch }: Study,
  rows: readonly number[],
  down: (row: number) => number,
  room: number,
  theme: Theme,
): Mark[] {
  const changes = rows.map((row) => fromWire(batch.sequences[row]?.delta.total) ?? Number.NaN);
  const largest = Math.max(...changes.filter(Number.isFinite).map(Math.abs), 1e-300);
  const middle = changes.some((value) => value < 0) ? room / 2 : 0;
  const scale = (room - middle - 2) / largest;
  return changes.map((change, place) => {
    const length = Number.isFinite(change) ? change * scale : 0;
    const height = down(place + 1) - down(place);
    return {
      x: middle + Math.min(length, 0),
      y: down(place) + Math.min(1, height / 4),
      width: Math.max(Math.abs(length), 0.5),
      height: Math.max(height - Math.min(2, height / 2), 0.5),
      colour: css(signed(change > 0 ? 0.55 : -0.55, theme)),
    };
  });
}

function Readout({
  study,
  cell,
  order,
  cells,
}: Pick<KernelMapProps, "study" | "order" | "cells"> & { cell: HeatCell }): ReactNode {
  const [row, column] = [order.rows[cell.row], order.columns[cell.column]];
  const evaluated = row === undefined ? undefined : study.batch.sequences[row];
  const by = column === undefined ? undefined : study.result.update[column];
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
