/** The cells of a sweep as a grid: best values on the ramp, other states in words. */
import { type KeyboardEvent, useRef } from "react";
import type { SweepCell } from "@/api/types";
import { css, viridis } from "@/charts/colors/viridis";
import { formatFixed, formatPercent, NONE } from "@/lib/format";
import { Icon } from "@/ui";
import { RunningDot } from "@/ui/RunningDot";
import { cellValue, isKept, neighbour, rowMean, type SweepGrid } from "./grid";

interface SweepGridViewProps {
  grid: SweepGrid;
  range: readonly [low: number, high: number] | null;
  decimals: number;
  focused: number | null;
  onFocus: (job: number) => void;
  onOpen: (cell: SweepCell) => void;
}

export function SweepGridView(props: SweepGridViewProps) {
  const { grid, focused, onFocus, onOpen } = props;
  const table = useRef<HTMLTableElement>(null);
  const { columnAxes, columns, rows } = grid;
  const first = rows.flatMap(({ cells }) => cells).find((cell) => cell !== null);
  const tabStop = focused ?? first?.job ?? null;
  const onKeyDown = (event: KeyboardEvent) => {
    if (tabStop === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = neighbour(grid, tabStop, event.key);
    if (next === null) return;
    event.preventDefault();
    onFocus(next.job);
    table.current?.querySelector<HTMLElement>(`[data-job="${next.job}"]`)?.focus();
  };
  const inner = columnAxes.at(-1);
  return (
    <div className="min-h-0 flex-1 overflow-auto px-3 pb-2" data-keys="own">
      <table
        ref={table}
        aria-label="Cells of the sweep"
        onKeyDown={onKeyDown}
        className="border-separate border-spacing-0.5"
      >
        <thead>
          {columnAxes.slice(0, -1).map((axis, depth) => (
            <tr key={axis.key}>
              <td />
              {groupsOf(columns, depth).map(({ level, span, key }) => (
                <th key={key} colSpan={span} className="h-6 px-1 text-center font-normal text-t3">
                  {axis.label} <span className="font-semibold text-text">{level}</span>
                </th>
              ))}
              <td />
            </tr>
          ))}
          <tr>
            <td />
            {columns.map(({ levels, opens }) => (
              <th
                key={levels.join("\n")}
                className={`h-5 text-center text-label font-normal text-t3 ${opens ? "pl-4" : ""}`}
              >
                {inner ? `${inner.label} ${levels.at(-1)}` : ""}
              </th>
            ))}
            {columns.length > 1 && (
              <th className="pl-4 text-right text-label font-normal whitespace-nowrap text-t3">
                mean of the row
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => {
            const { mean, deviation, count } = rowMean(row);
            return (
              <tr key={row.level}>
                <th className="max-w-36 truncate pr-3 text-left font-semibold" title={row.level}>
                  {row.level}
                </th>
                {row.cells.map((cell, index) => (
                  <td key={columns[index]?.levels.join("\n")} className={columns[index]?.opens ? "pl-4" : ""}>
                    {cell && (
                      <CellButton
                        {...props}
                        cell={cell}
                        isFocused={cell.job === focused}
                        isTabStop={cell.job === tabStop}
                        onFocus={() => onFocus(cell.job)}
                        onOpen={() => onOpen(cell)}
                      />
                    )}
                  </td>
                ))}
                {columns.length > 1 && (
                  <td className="pl-4 text-right whitespace-nowrap">
                    <div className="font-semibold">{formatFixed(count ? mean : null, props.decimals)}</div>
                    <div className="text-label text-t3">
                      {count > 1 ? `± ${formatFixed(deviation, props.decimals)}, ` : ""}n = {count}
                    </div>
                  </td>
                )}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

/** Neighbouring columns with the same level of an axis, for its head. */
function groupsOf(columns: SweepGrid["columns"], depth: number) {
  const groups: { level: string; span: number; key: string }[] = [];
  for (const { levels } of columns) {
    const key = levels.slice(0, depth + 1).join("\n");
    const last = groups.at(-1);
    if (last?.key === key) last.span += 1;
    else groups.push({ level: levels[depth] ?? "", span: 1, key });
  }
  return groups;
}

interface CellButtonProps extends Omit<SweepGridViewProps, "onFocus" | "onOpen" | "focused" | "grid"> {
  cell: SweepCell;
  isFocused: boolean;
  isTabStop: boolean;
  onFocus: () => void;
  onOpen: () => void;
}

const TILE = "flex h-[50px] w-[58px] flex-col items-center justify-center gap-0.5 rounded-mark text-body";

function CellButton({ cell, range, decimals, isFocused, isTabStop, onFocus, onOpen }: CellButtonProps) {
  const look = lookOf(cell, range);
  return (
    <button
      type="button"
      data-job={cell.job}
      tabIndex={isTabStop ? 0 : -1}
      aria-label={describeCell(cell, decimals)}
      aria-pressed={isFocused}
      onClick={(event) => {
        // The page takes focus from clicked buttons; in a grid the arrows go on from the clicked cell.
        event.currentTarget.focus();
        onFocus();
      }}
      onDoubleClick={onOpen}
      className={`${TILE} ${look.className} ${isFocused ? "ring-2 ring-accent ring-offset-1 ring-offset-surface" : ""}`}
      style={look.style}
    >
      <CellFace cell={cell} decimals={decimals} />
    </button>
  );
}

function CellFace({ cell, decimals }: { cell: SweepCell; decimals: number }) {
  const share = formatPercent(cell.share);
  if (cell.state === "finished") {
    return (
      <>
        {formatFixed(cellValue(cell), decimals)}
        {cell.change !== null && <span className="text-label whitespace-nowrap">{changeWords(cell)}</span>}
      </>
    );
  }
  if (cell.state === "running") {
    return (
      <>
        <span className="flex items-center text-label text-accent">
          <RunningDot />
          {cell.share === null ? "starts" : share}
        </span>{" "}
        {Number.isNaN(cellValue(cell)) ? null : formatFixed(cellValue(cell), decimals)}
        <span className="h-1 w-11 overflow-hidden rounded-full bg-surface">
          <span className="block h-full bg-accent" style={{ width: `${100 * (cell.share ?? 0)}%` }} />
        </span>
      </>
    );
  }
  if (cell.state === "missing") return <>missing</>;
  const [icon, word] = WORDS[cell.state];
  return (
    <>
      <span className="flex items-center gap-1 text-label">
        <Icon name={icon} size={12} />
        {word}
      </span>{" "}
      {cell.share !== null && <span>{share}</span>}
    </>
  );
}

const WORDS = {
  killed: ["killed", "Killed"],
  failed: ["refused", "Failed"],
  stopped: ["stop", "Stopped"],
} as const;

function lookOf(cell: SweepCell, range: SweepGridViewProps["range"]) {
  switch (cell.state) {
    case "finished": {
      if (!isKept(cell) || range === null) return { className: "border border-dashed border-line3 text-t2" };
      const [low, high] = range;
      const share = high > low ? (cellValue(cell) - low) / (high - low) : 0.5;
      const rgb = viridis(share);
      const style = { background: css(rgb), color: isLight(rgb) ? "#15181E" : "#FFFFFF" };
      return { className: "font-medium", style };
    }
    case "running":
      return { className: "bg-accent-soft" };
    case "missing":
      return { className: "border border-dashed border-line3 text-t3" };
    case "stopped":
      return { className: "bg-s2 text-t2" };
    default:
      return { className: "bg-bad-soft text-bad" };
  }
}

/** Whether dark text is read better on a colour: by its luminance. */
function isLight(rgb: readonly [number, number, number]): boolean {
  const [red, green, blue] = rgb.map((each) => {
    const part = each / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179;
}

/** A cell in words, with those that it shows. */
export function describeCell(cell: SweepCell, decimals: number): string {
  const settings = Object.entries(cell.choices).map(([key, value]) => `${labelOf(key)} ${value}`);
  const value = Number.isNaN(cellValue(cell)) ? "" : ` ${formatFixed(cellValue(cell), decimals)}`;
  return `${settings.join(", ")}: ${stateWords(cell, value)}`;
}

function stateWords(cell: SweepCell, value: string): string {
  const share = cell.share === null ? "" : ` ${formatPercent(cell.share)}`;
  switch (cell.state) {
    case "finished":
      return `finished${value}${changeWords(cell)}`;
    case "running":
      return `running${share || " starts"}${value}`;
    case "missing":
      return "missing";
    default:
      return `${WORDS[cell.state][1]}${share}`;
  }
}

function changeWords({ change }: SweepCell): string {
  if (change === null) return "";
  return change === "accepted code" ? " accepted" : ` other ${change}`;
}

/** The last part of a key. */
export const labelOf = (key: string): string => key.split(/[./]/).at(-1) ?? NONE;
