/** One row per feature: sort by any column, filter, status in colours, mean, min and max below. */
import { useDeferredValue, useMemo, useRef } from "react";
import { downloadBlob, downloadText } from "@/lib/download";
import { formatCount } from "@/lib/format";
import { statusOf } from "@/lib/rowStatus";
import { Icon, StatusWord } from "@/ui";
import { csvOf, jsonOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { panelToPng } from "@/ui/export/panelToPng";
import { DataTable, type Sort, type TableColumn } from "@/ui/table/DataTable";
import { FilterField, PROBLEM_ID } from "./FilterField";
import { hintedSort, type MetricsTable, metricsTable } from "./metricsModel";
import { PanelFrame, type PanelFrameProps } from "./PanelFrame";
import { filterProblem, filterRows } from "./tableModel";

export interface MetricsProps extends PanelFrameProps {
  filter: string;
  onFilter: (filter: string) => void;
  sort: Sort | null;
  onSort: (sort: Sort) => void;
  selected: number | null;
  onSelect: (row: number) => void;
  watched: readonly number[];
  /** Adds a watch; null where rows cannot be watched. */
  onWatch: ((row: number) => void) | null;
  running: boolean;
}

export function DebugMetricsTable(props: MetricsProps) {
  const { entry, onFilter, sort, onSort, selected, onSelect, running } = props;
  const container = useRef<HTMLDivElement>(null);
  const table = useMemo(() => metricsTable(entry), [entry]);
  const filter = useDeferredValue(props.filter);
  const problem = useMemo(() => filterProblem(table.columns, filter), [table, filter]);
  const rows = useMemo(
    () => (problem === null ? (filterRows(table.columns, filter) ?? undefined) : undefined),
    [table, filter, problem],
  );
  const columns = useDrawn(table, props);
  const tools = (
    <>
      <FilterField narrow value={props.filter} onChange={onFilter} problem={problem} />
      <ExportMenu subject={entry.panel.title ?? entry.key} items={exportsOf(props, table, container)} />
    </>
  );
  return (
    <PanelFrame
      {...props}
      fact={<Fact table={table} shown={rows?.length ?? null} step={entry.step} />}
      tools={tools}
    >
      {problem && (
        <p id={PROBLEM_ID} role="alert" className="px-3 pb-1 text-right text-bad">
          {problem}
        </p>
      )}
      <div ref={container} className="flex min-h-0 flex-1 flex-col">
        {rows?.length === 0 ? (
          <p className="px-3 py-1 text-t3">
            No row matches. Clear the filter to see all {formatCount(table.rows)}.
          </p>
        ) : (
          <DataTable
            label={entry.panel.title ?? entry.key}
            columns={columns}
            rows={rows}
            sort={sort ?? hintedSort(entry)}
            onSort={onSort}
            selected={selected}
            onSelect={onSelect}
            summary
            running={running}
          />
        )}
      </div>
    </PanelFrame>
  );
}

/** Counts by status, or how many rows there are. */
function Fact({ table, shown, step }: { table: MetricsTable; shown: number | null; step: number }) {
  if (shown !== null) return `${formatCount(shown)} of ${formatCount(table.rows)} rows`;
  if (!table.counts.length) return `${formatCount(table.rows)} rows · step ${formatCount(step)}`;
  return (
    <span className="flex items-center gap-3" data-step={step}>
      {shownCounts(table).map(({ word, tone, count }) => (
        <StatusWord key={word} tone={tone} word={`${formatCount(count)} ${inNumber(word, count)}`} />
      ))}
    </span>
  );
}

/** Of many words only those that hold for a row: there is room for three. */
function shownCounts({ counts }: MetricsTable) {
  return counts.length > 3 ? counts.filter(({ count }) => count > 0) : counts;
}

/** "1 winner", "3 winners"; adjectives such as dead stay as they are. */
function inNumber(word: string, count: number): string {
  return count !== 1 && /(er|or|unit|row)$/.test(word) ? `${word}s` : word;
}

/** The columns with the watch button in front and the status in its colour. */
function useDrawn(table: MetricsTable, { entry, watched, onWatch }: MetricsProps): TableColumn[] {
  return useMemo(() => {
    const rule = entry.panel.status;
    const judged = table.columns.find(({ name }) => name === rule?.field)?.cells;
    return table.columns.map((column): TableColumn => {
      if (column.name === table.rowName && onWatch !== null) {
        return {
          ...column,
          render: (row) => (
            <WatchCell
              name={String(column.cells[row])}
              on={watched.includes(row)}
              onWatch={() => onWatch(row)}
            />
          ),
        };
      }
      if (column.name !== table.statusName || rule === null) return column;
      return {
        ...column,
        render: (row) => {
          const status = statusOf(rule, Number(judged?.[row]));
          return status && <StatusWord tone={status.tone} word={String(column.cells[row])} />;
        },
      };
    });
  }, [table, entry.panel.status, watched, onWatch]);
}

/** The row's id; a click follows it. */
function WatchCell({ name, on, onWatch }: { name: string; on: boolean; onWatch: () => void }) {
  return (
    <button
      type="button"
      tabIndex={-1}
      title={on ? `${name} is watched` : `Watch ${name}`}
      aria-label={on ? `${name}, watched` : `Watch ${name}`}
      onClick={(event) => {
        event.stopPropagation();
        onWatch();
      }}
      className="-mx-1 inline-flex h-6 max-w-full items-center gap-1 rounded-chip px-1 hover:text-accent"
    >
      <span className="truncate">{name}</span>
      {on && <Icon name="eye" size={12} className="text-accent" />}
    </button>
  );
}

function exportsOf({ entry }: MetricsProps, table: MetricsTable, container: { current: Element | null }) {
  const name = `${entry.key}-${entry.step}`;
  return [
    {
      label: "PNG, the visible rows",
      onSelect: () =>
        void panelToPng(container.current).then((blob) => blob && downloadBlob(`${name}.png`, blob)),
    },
    { label: "CSV, all rows", onSelect: () => downloadText(`${name}.csv`, csvOf(table.columns), "text/csv") },
    {
      label: "JSON, all rows",
      onSelect: () => {
        const body = Object.fromEntries(
          table.columns.map((column) => [column.name, Array.from(column.cells)]),
        );
        downloadText(`${name}.json`, jsonOf(body), "application/json");
      },
    },
  ];
}
