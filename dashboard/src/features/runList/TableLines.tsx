/** The lines of the table: heads that sort, groups that fold, runs. */
import { memo, type ReactNode } from "react";
import { Link } from "wouter";
import type { RunRow } from "@/api/types";
import { seriesColour } from "@/charts/colors/seriesColors";
import { plural } from "@/lib/format";
import { Icon, rowClass, StateChip } from "@/ui";
import { Progress, spreadText, Tags, valueText } from "./cells";
import { type Sorting, spreadOf, type TableItem } from "./grouping";
import { CELL, type Column, LINE, type Tracks } from "./tableColumns";
import { cellOf } from "./values";

interface HeadProps {
  columns: readonly Column[];
  tracks: Tracks;
  sorting: Sorting;
  onSort: (sorting: Sorting) => void;
}

export function Head({ columns, tracks, sorting, onSort }: HeadProps) {
  const cell = (key: string, title: string, right: boolean) => (
    <HeadCell key={key} name={key} title={title} right={right} sorting={sorting} onSort={onSort} />
  );
  return (
    <div
      role="row"
      tabIndex={-1}
      aria-rowindex={1}
      className={`${LINE} sticky top-0 z-10 h-6 border-b border-line bg-surface text-label text-t3`}
      style={tracks}
    >
      <span role="columnheader" tabIndex={-1}>
        <span className="sr-only">Drawn</span>
      </span>
      {cell("name", "Run", false)}
      {cell("state", "State", false)}
      {columns.map(({ key, title, right }) => cell(key, title, right))}
      {cell("started_at", "Age", true)}
    </div>
  );
}

interface HeadCellProps {
  name: string;
  title: string;
  right: boolean;
  sorting: Sorting;
  onSort: (sorting: Sorting) => void;
}

function HeadCell({ name, title, right, sorting, onSort }: HeadCellProps) {
  const on = sorting.key === name;
  // The youngest first is what one wants of ages, the smallest of metrics, A to Z of names.
  const next = on ? !sorting.descending : name === "started_at" || name === "progress";
  return (
    <span
      role="columnheader"
      tabIndex={-1}
      aria-sort={on ? (sorting.descending ? "descending" : "ascending") : "none"}
      className={`flex min-w-0 pr-2 last:pr-0 ${right ? "justify-end" : ""} ${name === "progress" ? "pl-2" : ""}`}
    >
      <button
        type="button"
        title={name.replace(/^(config|summary)\./, "")}
        onClick={() => onSort({ key: name, descending: next })}
        className={`flex h-6 min-w-0 items-center gap-0.5 rounded-chip hover:text-text ${on ? "font-medium text-text" : ""}`}
      >
        <span className="truncate">{title}</span>
        {on && <Icon name={sorting.descending ? "arrowDown" : "arrowUp"} size={12} />}
      </button>
    </span>
  );
}

interface GroupLineProps {
  item: Extract<TableItem, { kind: "group" }>;
  columns: readonly Column[];
  sorting: Sorting;
  style: Tracks & { transform: string };
  onFold: (label: string) => void;
}

/** One measure speaks for the group: the one that is sorted by, else the first. */
export function GroupLine({ item, columns, sorting, style, onFold }: GroupLineProps) {
  const metrics = columns.filter(({ key }) => key.startsWith("summary."));
  const column = metrics.find(({ key }) => key === sorting.key) ?? metrics[0];
  const spread = column && spreadOf(item.runs, column.key);
  const lastTrack = column ? columns.indexOf(column) + 4 : 0;
  return (
    <div
      role="row"
      tabIndex={-1}
      className={`${LINE} absolute inset-x-0 top-0 h-6 border-t border-line`}
      style={style}
    >
      <button
        type="button"
        aria-expanded={!item.closed}
        aria-label={`Group ${item.label}`}
        onClick={() => onFold(item.label)}
        className="flex size-6 items-center justify-center rounded-chip text-t2 hover:text-text"
      >
        <Icon name={item.closed ? "chevronRight" : "chevronDown"} size={14} />
      </button>
      <span className="col-span-2 flex min-w-0 gap-2">
        <span className="truncate font-semibold">{item.label}</span>
        <span className="whitespace-nowrap text-t3">{plural(item.runs.length, "run")}</span>
      </span>
      {column && spread && (
        <span
          className="pr-2 text-right whitespace-nowrap text-t2"
          style={{ gridColumn: `4 / ${lastTrack + 1}` }}
          title={`${column.title}: mean ± spread over ${plural(spread.count, "run")}`}
        >
          {spreadText(spread, column.style)}
        </span>
      )}
    </div>
  );
}

interface RunLineProps {
  domId: string;
  row: number;
  run: RunRow;
  depth: number;
  columns: readonly Column[];
  style: Tracks & { transform: string };
  top: number;
  current: boolean;
  colourSlot: number | undefined;
  theme: string;
  age: string;
  address: string;
  onCursor: (id: string) => void;
  onShow: (id: string) => void;
  onOpen: (id: string) => void;
}

/** Redrawn only when its own run changed, however often the rest of the list does. */
export const RunLine = memo(
  function RunLine(props: RunLineProps) {
    const { run, depth, columns, style, current, colourSlot, onCursor, onShow, onOpen } = props;
    const damaged = run.state === "damaged";
    return (
      // biome-ignore lint/a11y/useKeyWithClickEvents: the arrows on the grid do the same
      <div
        id={props.domId}
        role="row"
        tabIndex={-1}
        aria-rowindex={props.row}
        aria-selected={colourSlot !== undefined}
        onClick={() => onCursor(run.id)}
        onDoubleClick={() => onOpen(run.id)}
        className={`${LINE} absolute inset-x-0 top-0 ${rowClass({ selected: current, excluded: damaged })}`}
        style={style}
      >
        <Swatch name={run.name} colourSlot={colourSlot} onToggle={() => onShow(run.id)} />
        <span role="gridcell" tabIndex={-1} className={`${CELL} flex items-center`}>
          {depth > 0 && (
            <span
              className="mr-1.5 mb-1.5 h-2.5 w-2 shrink-0 border-b border-l border-line2"
              style={{ marginLeft: depth * 10 - 6 }}
            />
          )}
          <Link
            href={props.address}
            tabIndex={-1}
            title={run.directory}
            className="min-w-0 truncate rounded-chip font-mono hover:text-accent hover:underline"
          >
            {run.name}
          </Link>
        </span>
        <span role="gridcell" tabIndex={-1} title={run.why ?? undefined} className="min-w-0">
          <StateChip state={run.state} />
        </span>
        {damaged ? (
          <span
            role="gridcell"
            tabIndex={-1}
            className="truncate pr-2"
            style={{ gridColumn: `span ${Math.max(1, columns.length)}` }}
            title={run.why ?? undefined}
          >
            {run.why}
          </span>
        ) : (
          columns.map((column) => <Value key={column.key} run={run} column={column} />)
        )}
        <span role="gridcell" tabIndex={-1} className="text-right text-t2">
          {props.age}
        </span>
      </div>
    );
  },
  (before, after) =>
    before.run === after.run &&
    before.columns === after.columns &&
    before.top === after.top &&
    before.current === after.current &&
    before.colourSlot === after.colourSlot &&
    before.theme === after.theme &&
    before.age === after.age &&
    before.depth === after.depth &&
    before.row === after.row &&
    before.address === after.address &&
    before.onCursor === after.onCursor &&
    before.onShow === after.onShow &&
    before.onOpen === after.onOpen,
);

function Value({ run, column: { key, right, style } }: { run: RunRow; column: Column }): ReactNode {
  if (key === "progress")
    return (
      <span role="gridcell" tabIndex={-1} className={`${CELL} pl-2`}>
        <Progress run={run} />
      </span>
    );
  if (key === "tags")
    return (
      <span role="gridcell" tabIndex={-1} className={CELL}>
        <Tags tags={run.tags} />
      </span>
    );
  const cell = cellOf(run, key);
  const odd = typeof cell === "number" && !Number.isFinite(cell);
  const exact = typeof cell === "number" && key.startsWith("summary.") ? String(cell) : undefined;
  return (
    <span
      role="gridcell"
      tabIndex={-1}
      title={exact}
      className={`${CELL} ${right ? "text-right" : ""} ${odd ? "font-medium text-bad" : ""} ${key.startsWith("summary.") && !odd ? "font-medium" : ""}`}
    >
      {valueText(run, key, style)}
    </span>
  );
}

interface SwatchProps {
  name: string;
  colourSlot: number | undefined;
  onToggle: () => void;
}

/** Filled with its colour while the run is drawn. */
function Swatch({ name, colourSlot, onToggle }: SwatchProps) {
  const on = colourSlot !== undefined;
  return (
    <button
      type="button"
      role="checkbox"
      aria-checked={on}
      aria-label={`Draw ${name}`}
      tabIndex={-1}
      onClick={(event) => {
        event.stopPropagation();
        onToggle();
      }}
      onDoubleClick={(event) => event.stopPropagation()}
      className="-ml-1.5 flex size-6 items-center justify-center"
    >
      <span
        className={`size-3 rounded-mark ${on ? "" : "border-[1.5px] border-line3"}`}
        style={on ? { background: seriesColour(colourSlot) } : undefined}
      />
    </button>
  );
}
