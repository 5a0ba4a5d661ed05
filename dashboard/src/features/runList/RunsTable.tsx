/** The list of runs: those that are drawn beside it have a filled swatch, forks are indented under their parents. */
import { type ReactNode, useMemo } from "react";
import { Link } from "wouter";
import type { RunRow } from "@/api/types";
import { seriesColour } from "@/charts/colors/seriesColors";
import { plural } from "@/lib/format";
import { StateChip } from "@/ui";
import { DataTable, type TableColumn, type TableGroup } from "@/ui/table/DataTable";
import { itemAfter } from "@/ui/table/tableItems";
import { ageText, Progress, spreadText, Tags, valueText } from "./cells";
import { type Sorting, spreadOf, type TableItem } from "./grouping";
import { type Column, describe, TRACKS } from "./tableColumns";
import { cellOf } from "./values";

export interface RunsTableProps {
  rows: ReadonlyMap<string, RunRow>;
  items: readonly TableItem[];
  /** Keys of the columns between state and age. */
  columns: readonly string[];
  sorting: Sorting;
  onSort: (sorting: Sorting) => void;
  /** Id of the row that the keys move. */
  cursor: string | null;
  onCursor: (id: string) => void;
  /** Which runs are drawn beside the table, by the slot of their colour. */
  shown: ReadonlyMap<string, number>;
  onShow: (id: string) => void;
  onOpen: (id: string) => void;
  onFold: (group: string) => void;
  onHover: (hovered: boolean) => void;
  addressOf: (id: string) => string;
  theme: string;
  now: number;
}

export function RunsTable(props: RunsTableProps) {
  const { rows, items, columns: keys, sorting, cursor, shown, onCursor, onShow, onOpen, addressOf } = props;
  const { now, theme } = props;
  const runs = useMemo(() => [...rows.values()], [rows]);
  const rowOf = useMemo(() => new Map(runs.map(({ id }, row) => [id, row])), [runs]);
  const described = useMemo(() => describe(rows, keys), [rows, keys]);
  const depths = useMemo(
    () => new Map(items.flatMap((item) => (item.kind === "run" ? [[item.id, item.depth] as const] : []))),
    [items],
  );
  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme changes the colours of the swatches
  const columns = useMemo(
    (): TableColumn[] => [
      {
        ...columnOf("drawn", "Drawn", TRACKS.swatch),
        sortable: false,
        head: <span className="sr-only">Drawn</span>,
        cells: runs.map(({ id }) => shown.has(id)),
        render: (row) => (
          <Swatch run={runs[row] as RunRow} slot={shown.get(runs[row]?.id ?? "")} onToggle={onShow} />
        ),
        look: "overflow-visible",
      },
      {
        ...columnOf("name", "Run", TRACKS.name),
        cells: runs.map(({ name }) => name),
        look: "flex items-center",
        render: (row) => {
          const run = runs[row] as RunRow;
          return <Name run={run} depth={depths.get(run.id) ?? 0} address={addressOf(run.id)} />;
        },
      },
      {
        ...columnOf("state", "State", TRACKS.state),
        cells: runs.map(({ state }) => state),
        titleOf: (row) => runs[row]?.why ?? undefined,
        look: "",
        render: (row) => <StateChip state={(runs[row] as RunRow).state} />,
      },
      ...described.map((column) => valueColumn(column, runs)),
      {
        ...columnOf("started_at", "Age", TRACKS.age),
        numeric: true,
        firstSort: "descending",
        cells: runs.map(({ started_at }) => started_at),
        look: "text-t2",
        render: (row) => ageText(runs[row] as RunRow, now),
      },
    ],
    [runs, described, depths, shown, onShow, addressOf, now, theme],
  );
  const order = useMemo(
    () =>
      items
        .flatMap((item) => (item.kind === "run" ? [rowOf.get(item.id) ?? -1] : []))
        .filter((row) => row >= 0),
    [items, rowOf],
  );
  const groups = useMemo(
    () => groupsOf(items, described, sorting, rowOf),
    [items, described, sorting, rowOf],
  );
  const idOf = (row: number) => (runs[row] as RunRow).id;
  return (
    <DataTable
      label="Runs"
      columns={columns}
      rows={order}
      ordered
      sort={{ column: sorting.key, direction: sorting.descending ? "descending" : "ascending" }}
      onSort={({ column, direction }) =>
        props.onSort({ key: column, descending: direction === "descending" })
      }
      groups={groups}
      onFold={props.onFold}
      selected={cursor === null ? null : (rowOf.get(cursor) ?? null)}
      onSelect={(row) => onCursor(idOf(row))}
      onOpen={(row) => onOpen(idOf(row))}
      onToggle={(row) => onShow(idOf(row))}
      isChosen={(row) => shown.has(idOf(row))}
      lookOf={(row) => ({ excluded: runs[row]?.state === "damaged" })}
      spanOf={(row) => {
        const run = runs[row] as RunRow;
        if (run.state !== "damaged" || described.length === 0) return null;
        return { from: 3, to: 3 + described.length, content: run.why, title: run.why ?? undefined };
      }}
      keyOf={idOf}
      onHover={props.onHover}
    />
  );
}

function columnOf(name: string, title: string, track: TableColumn["track"]) {
  return { name, title, numeric: false, track, headTitle: name.replace(/^(config|summary)\./, "") };
}

function valueColumn(
  { key, title, right, style, track, least }: Column,
  runs: readonly RunRow[],
): TableColumn {
  const isMetric = key.startsWith("summary.");
  const cells = runs.map((run) => cellOf(run, key));
  return {
    ...columnOf(key, title, { width: track, least }),
    numeric: right,
    cells,
    // The most advanced first is what one wants of progress, the smallest of metrics.
    firstSort: key === "progress" ? "descending" : "ascending",
    titleOf: (row) => (isMetric && typeof cells[row] === "number" ? String(cells[row]) : undefined),
    look: isMetric ? "font-medium" : key === "progress" ? "pl-2" : "",
    head: key === "progress" ? <span className="truncate pl-2">{title}</span> : undefined,
    render: (row): ReactNode => {
      const run = runs[row] as RunRow;
      if (key === "progress") return <Progress run={run} />;
      return key === "tags" ? <Tags tags={run.tags} /> : valueText(run, key, style);
    },
  };
}

/** Groups with one metric that stands for each: the one that is sorted by, else the first. */
function groupsOf(
  items: readonly TableItem[],
  columns: readonly Column[],
  sorting: Sorting,
  rowOf: ReadonlyMap<string, number>,
): TableGroup[] | undefined {
  const groups = items.flatMap((item) => (item.kind === "group" ? [item] : []));
  if (groups.length === 0) return undefined;
  const metrics = columns.filter(({ key }) => key.startsWith("summary."));
  const column = metrics.find(({ key }) => key === sorting.key) ?? metrics[0];
  return groups.map(({ label, runs, closed }) => {
    const spread = column && spreadOf(runs, column.key);
    return {
      key: label,
      label,
      closed,
      rows: runs.flatMap(({ id }) => rowOf.get(id) ?? []),
      fact: plural(runs.length, "run"),
      value:
        column && spread
          ? {
              column: column.key,
              content: spreadText(spread, column.style),
              title: `${column.title}: mean ± spread over ${plural(spread.count, "run")}`,
            }
          : undefined,
    };
  });
}

function Name({ run, depth, address }: { run: RunRow; depth: number; address: string }) {
  return (
    <>
      {depth > 0 && (
        <span
          className="mr-1.5 mb-1.5 h-2.5 w-2 shrink-0 border-b border-l border-line2"
          style={{ marginLeft: depth * 10 - 6 }}
        />
      )}
      <Link
        href={address}
        tabIndex={-1}
        title={run.directory}
        className="min-w-0 truncate rounded-chip font-mono hover:text-accent hover:underline"
      >
        {run.name}
      </Link>
    </>
  );
}

interface SwatchProps {
  run: RunRow;
  slot: number | undefined;
  onToggle: (id: string) => void;
}

/** Filled with its colour while the run is drawn. */
function Swatch({ run, slot, onToggle }: SwatchProps) {
  const on = slot !== undefined;
  return (
    <button
      type="button"
      role="checkbox"
      aria-checked={on}
      aria-label={`Draw ${run.name}`}
      tabIndex={-1}
      onClick={(event) => {
        event.stopPropagation();
        onToggle(run.id);
      }}
      onDoubleClick={(event) => event.stopPropagation()}
      className="-ml-1.5 flex size-6 items-center justify-center"
    >
      <span
        className={`size-3 rounded-mark ${on ? "" : "border-[1.5px] border-line3"}`}
        style={on ? { background: seriesColour(slot) } : undefined}
      />
    </button>
  );
}

/** The run that a key leads to; null for other keys. */
export function stepTo(items: readonly TableItem[], at: number, key: string, page: number): string | null {
  const lines = items.map(({ kind }) => ({ kind: kind === "group" ? ("group" as const) : ("row" as const) }));
  const index = itemAfter(lines, at, key, page);
  const item = index === null ? undefined : items[index];
  return item?.kind === "run" ? item.id : null;
}
