/** A table of columns that holds 100,000 rows: only what is seen is drawn. Heads and summary rows stick. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type ReactNode, useId, useMemo, useRef, useState } from "react";
import { type Summary, summarise } from "@/lib/statistics";
import { Icon } from "@/ui/Icon";
import { cellText, columnStyle, type NumberStyle } from "./columnFormat";
import { rowClass } from "./rowClass";
import type { Cell, Direction } from "./sortCells";
import { useStableOrder } from "./useStableOrder";

export interface TableColumn {
  name: string;
  title?: string;
  cells: ArrayLike<Cell>;
  numeric: boolean;
  /** Figures its numbers are written with. */
  significant?: number;
  /** Draws a cell itself; the cells stay what is sorted, filtered and exported. */
  render?: (row: number) => ReactNode;
}

export interface Sort {
  column: string;
  direction: Direction;
}

interface DataTableProps {
  label: string;
  columns: readonly TableColumn[];
  /** Rows to show, as indices into the columns; all of them when left out. */
  rows?: readonly number[];
  sort: Sort | null;
  onSort: (sort: Sort) => void;
  /** Index of the selected row. */
  selected?: number | null;
  onSelect?: (row: number) => void;
  /** Whether mean, min and max stand below. */
  summary?: boolean;
  /** While the run trains the order is renewed at most once a second, and not under the pointer. */
  running?: boolean;
}

const ROW_HEIGHT = 24;
/** Elements that rows share; more where a screen shows more. */
const POOL = 64;
const SUMMARIES = ["mean", "minimum", "maximum"] as const;
const SUMMARY_WORDS = { mean: "mean", minimum: "min", maximum: "max" };

/** Largest values first is what one wants of numbers, A to Z of texts; a second click turns it round. */
export function nextSort(sort: Sort | null, { name, numeric }: TableColumn): Sort {
  if (sort?.column !== name) return { column: name, direction: numeric ? "descending" : "ascending" };
  return { column: name, direction: sort.direction === "ascending" ? "descending" : "ascending" };
}

export function DataTable(props: DataTableProps) {
  const {
    label,
    columns,
    rows,
    sort,
    onSort,
    selected = null,
    onSelect,
    summary = false,
    running = false,
  } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const id = useId();
  const [hovered, setHovered] = useState(false);
  const count = columns[0]?.cells.length ?? 0;
  const order = useStableOrder({ columns, rows, sort, count, hold: running, hovered });
  const styles = useMemo(
    () => columns.map(({ cells, significant }) => columnStyle(cells, significant)),
    [columns],
  );
  const virtual = useVirtualizer({
    count: order.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 8,
    scrollMargin: 0,
  });
  const items = virtual.getVirtualItems();
  const pool = Math.max(POOL, items.length);
  const tracks = useMemo(() => tracksOf(columns, styles), [columns, styles]);
  const cursor = selected === null ? -1 : order.indexOf(selected);

  const move = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 0) / ROW_HEIGHT) - 2);
    const steps: Record<string, number> = {
      ArrowDown: cursor + 1,
      ArrowUp: Math.max(0, cursor - 1),
      PageDown: cursor + page,
      PageUp: cursor - page,
      Home: 0,
      End: order.length - 1,
    };
    const wanted = steps[event.key];
    if (wanted === undefined || !onSelect || !order.length) return;
    event.preventDefault();
    const index = Math.min(Math.max(wanted, 0), order.length - 1);
    onSelect(order[index] as number);
    virtual.scrollToIndex(index);
  };

  return (
    <div
      ref={scroller}
      role="grid"
      aria-label={label}
      aria-rowcount={order.length + 1}
      aria-colcount={columns.length}
      aria-activedescendant={cursor >= 0 ? `${id}-${selected}` : undefined}
      tabIndex={0}
      data-keys="own"
      onKeyDown={move}
      onPointerEnter={() => setHovered(true)}
      onPointerLeave={() => setHovered(false)}
      className="flex min-h-0 flex-1 flex-col overflow-auto focus-visible:-outline-offset-2"
    >
      <div
        role="row"
        tabIndex={-1}
        aria-rowindex={1}
        className="sticky top-0 z-10 grid h-6 w-full shrink-0 border-b border-line bg-surface px-3 text-label text-t3"
        style={tracks}
      >
        {columns.map((column, index) => (
          <HeadCell
            key={column.name}
            column={column}
            right={column.numeric && index > 0}
            sort={sort}
            onSort={onSort}
          />
        ))}
      </div>
      <div
        className="relative w-full shrink-0"
        style={{ height: virtual.getTotalSize(), minWidth: tracks.minWidth }}
      >
        {items.map((item) => {
          const row = order[item.index] as number;
          return (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the arrows on the grid do the same
            <div
              // Rows that scroll out lend their elements to those that scroll in.
              key={item.index % pool}
              id={`${id}-${row}`}
              role="row"
              tabIndex={-1}
              aria-rowindex={item.index + 2}
              aria-selected={onSelect ? row === selected : undefined}
              onClick={() => onSelect?.(row)}
              className={`absolute inset-x-0 top-0 grid items-center px-3 ${rowClass({ selected: row === selected })}`}
              style={{ ...tracks, transform: `translateY(${item.start}px)` }}
            >
              {columns.map((column, index) => (
                <BodyCell
                  key={column.name}
                  column={column}
                  row={row}
                  style={styles[index] as NumberStyle}
                  first={index === 0}
                />
              ))}
            </div>
          );
        })}
      </div>
      {summary && <SummaryRows columns={columns} rows={rows} styles={styles} tracks={tracks} />}
    </div>
  );
}

interface Tracks {
  gridTemplateColumns: string;
  minWidth: number;
}

/** The first column names the row: narrow and on the left, numbers too. Below the least widths the table scrolls. */
function tracksOf(columns: readonly TableColumn[], styles: readonly NumberStyle[]): Tracks {
  const least = columns.map(({ numeric, title, name }, index) => {
    if (index === 0 && numeric) return 52;
    return numeric ? numberWidth(styles[index] as NumberStyle, title ?? name) : 92;
  });
  const tracks = least.map((width, index) => {
    if (index === 0) return columns[0]?.numeric ? `${width}px` : `minmax(${width}px,1.5fr)`;
    return `minmax(${width}px,1fr)`;
  });
  return { gridTemplateColumns: tracks.join(" "), minWidth: least.reduce((sum, width) => sum + width, 24) };
}

/** Wide enough that no number of this style below a hundred is cut, nor a short title. */
function numberWidth(style: NumberStyle, title: string): number {
  const characters = style.kind === "fixed" ? style.decimals + 3 : style.kind === "mixed" ? 7 : 9;
  return Math.max(56, characters * 6.8 + 8, Math.min(title.length * 5.8 + 20, 80));
}

interface HeadCellProps {
  column: TableColumn;
  right: boolean;
  sort: Sort | null;
  onSort: (sort: Sort) => void;
}

function HeadCell({ column, right, sort, onSort }: HeadCellProps) {
  const on = sort?.column === column.name;
  return (
    <div
      role="columnheader"
      tabIndex={-1}
      aria-sort={on ? sort.direction : "none"}
      className={`flex min-w-0 items-center pr-2 last:pr-0 ${right ? "justify-end" : ""}`}
    >
      <button
        type="button"
        onClick={() => onSort(nextSort(sort, column))}
        className={`flex h-6 min-w-0 items-center gap-0.5 rounded-chip hover:text-text ${on ? "font-medium text-text" : ""}`}
      >
        <span className="truncate">{column.title ?? column.name}</span>
        {on && <Icon name={sort.direction === "ascending" ? "arrowUp" : "arrowDown"} size={12} />}
      </button>
    </div>
  );
}

interface BodyCellProps {
  column: TableColumn;
  row: number;
  style: NumberStyle;
  first: boolean;
}

function BodyCell({ column, row, style, first }: BodyCellProps) {
  const cell = column.cells[row];
  const odd = typeof cell === "number" && !Number.isFinite(cell);
  return (
    <div
      role="gridcell"
      tabIndex={-1}
      className={`truncate pr-2 last:pr-0 ${column.numeric && !first ? "text-right" : ""} ${first ? "font-medium" : ""} ${odd ? "font-medium text-bad" : ""}`}
    >
      {column.render ? column.render(row) : cellText(cell, style)}
    </div>
  );
}

/** Statistics of a column over the rows shown; none for texts. */
export function summaryOf({ cells, numeric }: TableColumn, rows?: readonly number[]): Summary | null {
  if (!numeric) return null;
  const values = cells as ArrayLike<number>;
  return summarise(rows ? rows.map((row) => values[row] as number) : values);
}

interface SummaryRowsProps {
  columns: readonly TableColumn[];
  /** Rows that are shown; all of them when left out. */
  rows?: readonly number[];
  styles: readonly NumberStyle[];
  tracks: Tracks;
}

function SummaryRows({ columns, rows, styles, tracks }: SummaryRowsProps) {
  const summaries = useMemo(() => columns.map((column) => summaryOf(column, rows)), [columns, rows]);
  return (
    <div
      className="sticky bottom-0 mt-auto w-full shrink-0 bg-s2 text-t2"
      style={{ minWidth: tracks.minWidth }}
    >
      {SUMMARIES.map((kind) => (
        <div key={kind} role="row" tabIndex={-1} className="grid h-[22px] items-center px-3" style={tracks}>
          {columns.map(({ name }, index) => {
            const value = summaries[index]?.[kind];
            return (
              <div
                key={name}
                role="gridcell"
                tabIndex={-1}
                className={`truncate pr-2 last:pr-0 ${index === 0 ? "" : "text-right"}`}
              >
                {index === 0
                  ? SUMMARY_WORDS[kind]
                  : value === undefined
                    ? ""
                    : cellText(summaries[index]?.count ? value : null, styles[index] as NumberStyle)}
              </div>
            );
          })}
        </div>
      ))}
    </div>
  );
}
