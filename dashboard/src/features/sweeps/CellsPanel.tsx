/** The cells of a sweep: as a grid or as a table, with what the focused level changes below. */
import { useMemo, useRef } from "react";
import type { SweepCell, SweepOut } from "@/api/types";
import { css, viridis } from "@/charts/colors/viridis";
import { formatFixed, formatPercent } from "@/lib/format";
import { metricTitle } from "@/lib/metricNames";
import { Icon, Panel, Segmented } from "@/ui";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { exportItems } from "@/ui/export/exportItems";
import { RunningDot } from "@/ui/RunningDot";
import { DataTable, type TableColumn } from "@/ui/table/DataTable";
import { cellValue, decimalsFor, type SweepGrid, valueRange, verdictsOf } from "./grid";
import { SweepGridView } from "./SweepGridView";

export type CellsView = "grid" | "table";

interface CellsPanelProps {
  sweep: SweepOut;
  grid: SweepGrid;
  focused: SweepCell | null;
  onFocus: (job: number) => void;
  onOpen: (cell: SweepCell) => void;
  view: CellsView;
  onView: (view: CellsView) => void;
}

const MOST_VERDICTS = 3;

export default function CellsPanel(props: CellsPanelProps) {
  const { sweep, grid, focused, onFocus, onOpen, view, onView } = props;
  const body = useRef<HTMLDivElement>(null);
  const range = useMemo(() => valueRange(sweep.grid), [sweep.grid]);
  const decimals = decimalsFor(range);
  const columns = useMemo(() => columnsOf(sweep, decimals), [sweep, decimals]);
  const verdicts = verdictsOf(grid, sweep.comparisons, focused, sweep.lower_is_better, decimals);
  return (
    <Panel
      title="Cells"
      fact={<Counts sweep={sweep} />}
      className="h-full"
      tools={
        <>
          {range && view === "grid" && <Legend range={range} decimals={decimals} sweep={sweep} />}
          <Segmented
            label="View of the cells"
            value={view}
            choices={[
              { value: "grid", label: "Grid" },
              { value: "table", label: "Table" },
            ]}
            onChange={onView}
          />
          <ExportMenu
            subject="cells"
            items={exportItems(
              `sweep-${sweep.name}`,
              () => body.current,
              () => columns.map(({ name, cells }) => ({ name, cells })),
              () => sweep,
            )}
          />
        </>
      }
    >
      <div ref={body} className="flex min-h-0 flex-1 flex-col">
        {view === "grid" ? (
          <SweepGridView
            grid={grid}
            range={range}
            decimals={decimals}
            focused={focused?.job ?? null}
            onFocus={onFocus}
            onOpen={onOpen}
          />
        ) : (
          <div className="flex min-h-0 flex-1 flex-col">
            <DataTable label="Cells of the sweep" columns={columns} />
          </div>
        )}
        {verdicts.length > 0 && (
          <ul className="shrink-0 border-t border-line px-3 py-2" aria-label="Comparisons">
            {verdicts.slice(0, MOST_VERDICTS).map(({ text, note, held }, index) => (
              <li key={text} className="flex min-h-6 items-center gap-2">
                <span className={index === 0 ? "font-semibold" : ""}>{text}</span>
                {note && (
                  <span className="rounded-full bg-warn-soft px-2 whitespace-nowrap text-warn">{note}</span>
                )}
                <span className="ml-auto text-right text-t3">
                  {index === 0 ? held : index === 1 ? `${sweep.fewest_seeds} seeds or more give a rank` : ""}
                </span>
              </li>
            ))}
          </ul>
        )}
      </div>
    </Panel>
  );
}

/** How many cells are in which state; only exceptions have a colour. */
function Counts({ sweep: { states, cells, grid } }: { sweep: SweepOut }) {
  const changed = grid.filter((cell) => cell.state === "finished" && cell.open).length;
  const { finished = 0, running = 0, killed = 0, failed = 0, stopped = 0, missing = 0 } = states;
  return (
    <span className="flex gap-3">
      {finished} of {cells} finished
      {running > 0 && (
        <span className="flex items-center text-accent">
          <RunningDot />
          {running} running
        </span>
      )}
      {killed > 0 && (
        <span className="flex items-center gap-1 text-bad">
          <Icon name="killed" size={14} />
          {killed} killed
        </span>
      )}
      {failed > 0 && (
        <span className="flex items-center gap-1 text-bad">
          <Icon name="refused" size={14} />
          {failed} failed
        </span>
      )}
      {stopped > 0 && <span>{stopped} stopped</span>}
      {changed > 0 && <span className="text-warn">{changed} with other code or data</span>}
      {missing > 0 && <span>{missing} missing</span>}
    </span>
  );
}

interface LegendProps {
  range: readonly [low: number, high: number];
  decimals: number;
  sweep: SweepOut;
}

function Legend({ range, decimals, sweep }: LegendProps) {
  const stops = [0, 0.25, 0.5, 0.75, 1].map((share) => css(viridis(share))).join(", ");
  const [first, last] = range.map((value) => formatFixed(value, decimals));
  return (
    <span className="flex items-center gap-1.5 whitespace-nowrap text-t3">
      {sweep.lower_is_better ? `best ${first}` : first}
      <span className="h-3 w-14 rounded-mark" style={{ background: `linear-gradient(to right, ${stops})` }} />
      {sweep.lower_is_better ? last : `best ${last}`}
    </span>
  );
}

function columnsOf(sweep: SweepOut, decimals: number): TableColumn[] {
  const { grid, axes, value } = sweep;
  const text = (name: string, title: string, cells: string[], least = 72): TableColumn => ({
    name,
    title,
    numeric: false,
    cells,
    track: { width: `minmax(${least}px,${2.5 * least}px)`, least },
  });
  return [
    {
      name: "cell",
      title: "Cell",
      numeric: true,
      rowHeader: true,
      cells: grid.map(({ job }) => job),
      render: (row) => grid[row]?.job,
    },
    ...axes.map((axis) =>
      text(
        axis.key,
        axis.label,
        grid.map(({ choices }) => choices[axis.key] ?? ""),
      ),
    ),
    text("state", "State", grid.map(stateText), 180),
    {
      name: value,
      title: metricTitle(value),
      numeric: true,
      cells: grid.map(cellValue),
      render: (row) => formatFixed(cellValue(grid[row] ?? null), decimals),
    },
    text(
      "address",
      "Address",
      grid.map(({ address }) => address.slice(0, 8)),
    ),
    text(
      "error",
      "Error",
      grid.map(({ error }) => error ?? ""),
    ),
  ];
}

/** The state of a cell in words. */
export function stateText(cell: SweepCell): string {
  const share = cell.share === null || cell.state === "finished" ? "" : `, ${formatPercent(cell.share)}`;
  const change =
    cell.change === null
      ? ""
      : cell.change === "accepted code"
        ? ", other code accepted"
        : `, same config, other ${cell.change}`;
  return `${cell.state}${share}${change}`;
}
