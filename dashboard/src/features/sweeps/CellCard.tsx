/** What is known of one cell, and what can be done with it. */
import type { ReactNode } from "react";
import type { SweepCell, SweepOut } from "@/api/types";
import { formatCount, formatFixed, NONE } from "@/lib/format";
import { metricTitle } from "@/lib/metricNames";
import { Button, Panel, StateChip } from "@/ui";
import { stateText } from "./CellsPanel";
import { cellValue, decimalsFor, isKept, numberOf, valueRange } from "./grid";
import { labelOf } from "./SweepGridView";

interface CellCardProps {
  sweep: SweepOut;
  cell: SweepCell | null;
  onOpen: (cell: SweepCell) => void;
  /** Runs or resumes the cell. */
  onRun: (cell: SweepCell) => void;
  onStop: (cell: SweepCell) => void;
  noControl: string | null;
}

export default function CellCard({ sweep, cell, onOpen, onRun, onStop, noControl }: CellCardProps) {
  if (cell === null)
    return (
      <Panel
        title="Cell"
        className="h-full"
        state={{
          kind: "empty",
          title: "No cell is selected",
          text: "Click a cell, or walk the grid with the arrows.",
        }}
      />
    );
  const verb = { missing: "Run cell", failed: "Run again" }[cell.state as string] ?? "Resume cell";
  const busy = sweep.pool ? "The sweep is running. It starts the open cells one after the other." : null;
  return (
    <Panel
      title={`Cell ${cell.job}`}
      fact={<CellState cell={cell} />}
      className="h-full"
      tools={
        <>
          {cell.state === "running" && (
            <Button small icon="stop" disabledReason={noControl} onClick={() => onStop(cell)}>
              Stop cell
            </Button>
          )}
          {(cell.open || cell.state === "failed") && (
            <Button small icon="play" disabledReason={noControl ?? busy} onClick={() => onRun(cell)}>
              {cell.state === "finished" ? "Run again" : verb}
            </Button>
          )}
          <Button
            small
            disabledReason={cell.run_id === null ? "It has no run yet" : null}
            onClick={() => onOpen(cell)}
          >
            Open
          </Button>
        </>
      }
    >
      <dl className="min-h-0 flex-1 overflow-auto px-3 pb-2">
        {linesOf(sweep, cell).map(([name, content]) => (
          <div key={name} className="grid min-h-6 grid-cols-[104px_minmax(0,1fr)] items-center">
            <dt className="text-t3">{name}</dt>
            <dd className="break-words">{content}</dd>
          </div>
        ))}
      </dl>
      <p className="px-3 pb-2 text-t3">{adviceOn(sweep, cell)}</p>
    </Panel>
  );
}

/** What a start of the sweep does with the cell. */
function adviceOn(sweep: SweepOut, cell: SweepCell): ReactNode {
  if (cell.change === "data")
    return "Its data has changed. Starting it trains a new run; the old run is kept.";
  if (cell.change !== "code") return "Finished cells are skipped, killed ones resume from their checkpoint.";
  return (
    <>
      Its code has changed. Starting it trains a new run; the old run is kept. To use the old run:{" "}
      <code className="font-mono">midstep sweep run {sweep.name} --accept-code</code>
    </>
  );
}

function CellState({ cell }: { cell: SweepCell }) {
  if (cell.state === "missing") return <>missing</>;
  return (
    <StateChip
      state={
        cell.run_state === null || cell.run_state === "damaged" ? (cell.state as "failed") : cell.run_state
      }
    />
  );
}

function linesOf(sweep: SweepOut, cell: SweepCell): [string, ReactNode][] {
  const decimals = decimalsFor(valueRange(sweep.grid));
  const value = cellValue(cell);
  const lines: [string, ReactNode][] = [
    [
      metricTitle(sweep.value),
      Number.isNaN(value) ? (
        NONE
      ) : (
        <>
          <b className="font-semibold">{formatFixed(value, decimals)}</b>
          {rankText(sweep, cell)}
        </>
      ),
    ],
    ...againstLines(sweep, cell, decimals),
    [
      "Settings",
      Object.entries(cell.choices)
        .map(([key, level]) => `${labelOf(key)} ${level}`)
        .join(", "),
    ],
    ["Steps", cell.step === null ? NONE : formatCount(cell.step)],
    [
      "Job",
      <>
        <code className="font-mono">{cell.address.slice(0, 8)}</code>{" "}
        <span className="text-t3">config, code and data</span>
      </>,
    ],
  ];
  if (cell.change !== null) lines.push(["Changed", stateText(cell)]);
  if (cell.error !== null)
    lines.push([
      "Error",
      <span key="error" className="text-bad">
        {cell.error}
      </span>,
    ]);
  return lines;
}

/** Its place among the cells that differ from it in the seed alone. */
function rankText(sweep: SweepOut, cell: SweepCell): string {
  const held = sweep.axes.filter(({ is_seed }) => !is_seed);
  if (!isKept(cell) || held.length === sweep.axes.length) return "";
  const same = sweep.grid.filter(
    (one) => isKept(one) && held.every(({ key }) => one.choices[key] === cell.choices[key]),
  );
  const better = same.filter((one) =>
    sweep.lower_is_better ? cellValue(one) < cellValue(cell) : cellValue(one) > cellValue(cell),
  );
  return same.length > 1 ? `, ${ordinal(better.length + 1)} of ${same.length} seeds` : "";
}

function ordinal(number: number): string {
  return `${number}${{ 1: "st", 2: "nd", 3: "rd" }[number] ?? "th"}`;
}

/** The difference to the first level of each axis that is no seed. */
function againstLines(sweep: SweepOut, cell: SweepCell, decimals: number): [string, ReactNode][] {
  return sweep.effects.flatMap((effect): [string, ReactNode][] => {
    const axis = sweep.axes.find(({ key }) => key === effect.axis);
    const pair = effect.pairs.find(({ job }) => job === cell.job);
    if (pair === undefined || axis === undefined || axis.is_seed) return [];
    const difference = numberOf(pair.difference);
    const text = `${difference > 0 ? "+" : ""}${formatFixed(difference, decimals)}`;
    return [[`Against ${effect.against}`, `${text}, ${axis.label} alone differs`]];
  });
}
