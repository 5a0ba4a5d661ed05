/**
 * The table of every panel: columns, groups that fold, actions at the end of a row. Heads and summary rows stick.
 *
 * It holds 100,000 rows, because only those that are seen are drawn; `fit` draws all of a short table.
 */
import { type KeyboardEvent, memo, type ReactNode, useEffect, useId, useMemo, useRef, useState } from "react";
import { type Summary, summarise } from "@/lib/statistics";
import { Icon } from "@/ui/Icon";
import { cellText, columnStyle, type NumberStyle } from "./columnFormat";
import { type RowLook, rowClass } from "./rowClass";
import type { Cell, Direction } from "./sortCells";
import { itemAfter, type RowGroup, type TableItem, tableItems } from "./tableItems";
import { ROW_HEIGHT, useFixedRows } from "./useFixedRows";
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
  /** Draws the head itself; `title` still names it. */
  head?: ReactNode;
  /** The whole of what a cell may cut off, or what its head stands for. */
  titleOf?: (row: number) => string | undefined;
  headTitle?: string;
  /** Width of the column as a grid track with its least width in pixels; by its numbers when left out. */
  track?: { width: string; least: number };
  /** Whether its head sorts; all do where the table sorts. */
  sortable?: boolean;
  /** Which way the first click sorts; numbers fall, texts rise when left out. */
  firstSort?: Direction;
  /** Class names of its cells. */
  look?: string;
  /** Its cells name their rows. */
  rowHeader?: boolean;
  /** Numbers that are not finite have a ground of their own: they are inputs, not measurements. */
  marksNan?: boolean;
}

export interface Sort {
  column: string;
  direction: Direction;
}

/** A group of rows with a line of its own above them. */
export interface TableGroup extends RowGroup {
  /** What it is called, also for those who cannot see it. */
  label: string;
  fact?: ReactNode;
  /** Drawn under a column, such as the mean of the group. */
  value?: { column: string; content: ReactNode; title?: string };
}

interface DataTableProps {
  label: string;
  columns: readonly TableColumn[];
  /** Rows to show, as indices into the columns; all of them when left out. */
  rows?: readonly number[];
  sort?: Sort | null;
  onSort?: (sort: Sort) => void;
  /** `rows` are in order already; the sort only shows in the heads. */
  ordered?: boolean;
  groups?: readonly TableGroup[];
  /** Folds a group or opens it; groups do not fold when left out. */
  onFold?: (key: string) => void;
  /** Index of the selected row. */
  selected?: number | null;
  onSelect?: (row: number) => void;
  /** Enter or a double click on a row. */
  onOpen?: (row: number) => void;
  /** Space on a row. */
  onToggle?: (row: number) => void;
  /** Which rows are chosen by `onToggle`. */
  isChosen?: (row: number) => boolean;
  /** Buttons at the end of a row. */
  actions?: { label: string; width: number; render: (row: number) => ReactNode };
  lookOf?: (row: number) => RowLook;
  /** A text in place of the cells from one column to the one before another, such as the reason of a damaged row. */
  spanOf?: (row: number) => { from: number; to: number; content: ReactNode; title?: string } | null;
  /** Identity of a row, for elements that are kept; its index when left out. */
  keyOf?: (row: number) => string;
  /** Changes when `render` functions would draw something else with the same columns. */
  version?: unknown;
  /** Whether mean, min and max are shown below. */
  summary?: boolean;
  /** While the run trains the order is renewed at most once a second, and not under the pointer. */
  running?: boolean;
  /** Whether heads are only read out, as over pairs of a name and a value. */
  headless?: boolean;
  /** As high as its rows, inside something that scrolls. */
  fit?: boolean;
  /** The last row came into sight: more may be loaded. */
  onEnd?: () => void;
  onHover?: (hovered: boolean) => void;
}

const HEAD_HEIGHT = 24;
const SUMMARY_HEIGHT = 22;
/** Elements that rows share; more where a screen shows more. */
const POOL = 64;
/** Style of a column that draws its cells itself. */
const DRAWN: NumberStyle = { kind: "mixed" };
const SUMMARIES = ["mean", "minimum", "maximum"] as const;
const SUMMARY_WORDS = { mean: "mean", minimum: "min", maximum: "max" };

/** Largest values first is what one wants of numbers, A to Z of texts; a second click turns it round. */
export function nextSort(sort: Sort | null, { name, numeric, firstSort }: TableColumn): Sort {
  if (sort?.column !== name)
    return { column: name, direction: firstSort ?? (numeric ? "descending" : "ascending") };
  return { column: name, direction: sort.direction === "ascending" ? "descending" : "ascending" };
}

export function DataTable(props: DataTableProps) {
  const { label, columns, rows, sort = null, groups, selected = null, onSelect, onOpen, onToggle } = props;
  const { actions, lookOf, spanOf, isChosen, summary = false, running = false, fit = false } = props;
  const { headless = false } = props;
  const id = useId();
  const [hovered, setHovered] = useState(false);
  const count = columns[0]?.cells.length ?? 0;
  const order = useStableOrder({
    columns,
    rows,
    sort: props.ordered ? null : sort,
    count,
    hold: running,
    hovered,
  });
  const items = useMemo(() => tableItems(order, groups), [order, groups]);
  const styles = useMemo(
    () =>
      columns.map(({ cells, significant, render, track }) =>
        render && track ? DRAWN : columnStyle(cells, significant),
      ),
    [columns],
  );
  const fixed = useFixedRows({
    count: items.length,
    head: headless ? 0 : HEAD_HEIGHT,
    foot: summary ? SUMMARIES.length * SUMMARY_HEIGHT : 0,
  });
  const shown = fit ? items.map((_, index) => ({ index, start: index * ROW_HEIGHT })) : fixed.rows;
  const pool = Math.max(POOL, shown.length);
  const { onEnd } = props;
  const isAtEnd = shown.at(-1)?.index === items.length - 1;
  // biome-ignore lint/correctness/useExhaustiveDependencies: with more rows the end is another one
  useEffect(() => {
    if (isAtEnd) onEnd?.();
  }, [isAtEnd, items.length, onEnd]);
  const sorted = sort?.column ?? null;
  const tracks = useMemo(
    () => tracksOf(columns, styles, { actions: actions?.width, sorted }),
    [columns, styles, actions?.width, sorted],
  );
  const at = useMemo(
    () => (selected === null ? -1 : items.findIndex((item) => item.kind === "row" && item.row === selected)),
    [items, selected],
  );
  const { scrollToRow } = fixed;
  const selectedItem = useRef(at);
  selectedItem.current = at;
  // Another selection, by a key here or from the page, is brought into sight; new values or another order scroll nothing.
  // biome-ignore lint/correctness/useExhaustiveDependencies: only the selection may scroll
  useEffect(() => {
    if (selectedItem.current >= 0 && !fit) scrollToRow(selectedItem.current);
  }, [selected, fit, scrollToRow]);
  const keyOf = (row: number) => props.keyOf?.(row) ?? String(row);
  const isGrid = onSelect !== undefined;

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target !== event.currentTarget || onSelect === undefined) return;
    const next = itemAfter(items, at, event.key, fixed.pageRows);
    const item = next === null ? undefined : items[next];
    if (item?.kind === "row") onSelect(item.row);
    else if (event.key === "Enter" && onOpen && selected !== null && at >= 0) onOpen(selected);
    else if (event.key === " " && onToggle && selected !== null && at >= 0) onToggle(selected);
    else return;
    event.preventDefault();
  };
  const hover = (on: boolean) => {
    setHovered(on);
    props.onHover?.(on);
  };
  const isReachable = isGrid || !fit;
  const root = {
    // Rows that can be selected make a grid.
    role: isGrid ? "grid" : "table",
    "aria-label": label,
    "aria-rowcount": items.length + 1,
    "aria-colcount": columns.length + (actions ? 1 : 0),
    "aria-multiselectable": onToggle ? true : undefined,
    "aria-activedescendant": at >= 0 && selected !== null ? `${id}-${keyOf(selected)}` : undefined,
    // A table that scrolls must be reachable by keyboard.
    tabIndex: isReachable ? 0 : undefined,
    "data-keys": isReachable ? "own" : undefined,
    onKeyDown,
    onPointerEnter: () => hover(true),
    onPointerLeave: () => hover(false),
  };
  return (
    <div
      ref={fit ? undefined : fixed.ref}
      {...root}
      // Where nothing around it has a height, as on a low page, it would be as high as all its rows and draw them all.
      className={`flex flex-col focus-visible:-outline-offset-2 ${fit ? "shrink-0" : "max-h-screen min-h-0 flex-1 overflow-auto"}`}
    >
      <div
        role="row"
        tabIndex={-1}
        aria-rowindex={1}
        className={
          headless
            ? "sr-only"
            : "sticky top-0 z-10 grid h-6 w-full shrink-0 border-b border-line bg-surface px-3 text-label text-t3"
        }
        style={headless ? undefined : tracks}
      >
        {columns.map((column, index) => (
          <HeadCell
            key={column.name}
            column={column}
            right={column.numeric && index > 0}
            sort={sort}
            onSort={column.sortable === false ? undefined : props.onSort}
          />
        ))}
        {actions && (
          <span role="columnheader" tabIndex={-1}>
            <span className="sr-only">{actions.label}</span>
          </span>
        )}
      </div>
      <div
        className="relative w-full shrink-0"
        style={{ height: items.length * ROW_HEIGHT, minWidth: tracks.minWidth }}
      >
        {shown.map(({ index, start }) => {
          const item = items[index] as TableItem<TableGroup>;
          if (item.kind === "group")
            return (
              <GroupRow
                key={`group ${item.group.key}`}
                {...{ group: item.group, columns, tracks, start }}
                onFold={props.onFold}
              />
            );
          const { row } = item;
          return (
            <BodyRow
              // Rows that scroll out lend their elements to those that scroll in, unless they have a key.
              key={props.keyOf ? props.keyOf(row) : index % pool}
              domId={`${id}-${keyOf(row)}`}
              rowIndex={index + 2}
              {...{ row, columns, styles, tracks, start, actions, spanOf, onSelect, onOpen }}
              version={props.version}
              isSelected={row === selected}
              ariaSelected={isChosen ? isChosen(row) : isGrid ? row === selected : undefined}
              look={rowClass({ selected: row === selected, ...lookOf?.(row) })}
              cellRole={isGrid ? "gridcell" : "cell"}
            />
          );
        })}
      </div>
      {summary && <SummaryRows columns={columns} rows={rows} styles={styles} tracks={tracks} />}
    </div>
  );
}

interface BodyRowProps
  extends Pick<DataTableProps, "columns" | "actions" | "spanOf" | "onSelect" | "onOpen" | "version"> {
  domId: string;
  rowIndex: number;
  row: number;
  styles: readonly NumberStyle[];
  tracks: Tracks;
  start: number;
  isSelected: boolean;
  ariaSelected: boolean | undefined;
  look: string;
  cellRole: "gridcell" | "cell";
}

/** Drawn again only when something of its own changed. */
const BodyRow = memo(function BodyRow(props: BodyRowProps) {
  const { row, columns, styles, tracks, start, actions, cellRole, onSelect, onOpen } = props;
  const span = props.spanOf?.(row) ?? null;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the arrows on the grid do the same
    <div
      id={props.domId}
      role="row"
      tabIndex={-1}
      aria-rowindex={props.rowIndex}
      aria-selected={props.ariaSelected}
      onClick={onSelect && (() => onSelect(row))}
      onDoubleClick={onOpen && (() => onOpen(row))}
      className={`absolute inset-x-0 top-0 grid items-center px-3 ${props.look}`}
      style={{ ...tracks, transform: `translateY(${start}px)` }}
    >
      {columns.map((column, index) => {
        if (span && index > span.from && index < span.to) return null;
        if (span && index === span.from)
          return (
            <div
              key={column.name}
              {...{ role: cellRole, "aria-colspan": span.to - span.from }}
              tabIndex={-1}
              className="truncate pr-2"
              style={{ gridColumn: `span ${Math.max(1, span.to - span.from)}` }}
              title={span.title}
            >
              {span.content}
            </div>
          );
        return (
          <BodyCell
            key={column.name}
            {...{ column, row, cellRole }}
            style={styles[index] as NumberStyle}
            first={index === 0}
          />
        );
      })}
      {actions && (
        <div role={cellRole} tabIndex={-1} className="flex justify-end">
          {actions.render(row)}
        </div>
      )}
    </div>
  );
});

interface GroupRowProps {
  group: TableGroup;
  columns: readonly TableColumn[];
  tracks: Tracks;
  start: number;
  onFold?: (key: string) => void;
}

/** The line of a group: its name, how many it holds, and one value under its column. */
function GroupRow({ group, columns, tracks, start, onFold }: GroupRowProps) {
  const { key, label, fact, value, closed = false } = group;
  const last = value ? columns.findIndex(({ name }) => name === value.column) + 1 : 0;
  return (
    <div
      role="row"
      tabIndex={-1}
      className="absolute inset-x-0 top-0 grid h-6 items-center border-t border-line px-3"
      style={{ ...tracks, transform: `translateY(${start}px)` }}
    >
      <span
        role="rowheader"
        tabIndex={-1}
        className="flex min-w-0 items-center gap-2"
        style={{ gridColumn: `1 / ${last >= 4 ? 4 : -1}` }}
      >
        {onFold && (
          <button
            type="button"
            aria-expanded={!closed}
            aria-label={`Group ${label}`}
            onClick={() => onFold(key)}
            className="-ml-1.5 flex size-6 shrink-0 items-center justify-center rounded-chip text-t2 hover:text-text"
          >
            <Icon name={closed ? "chevronRight" : "chevronDown"} size={14} />
          </button>
        )}
        <span className="truncate font-semibold">{label}</span>
        {fact && <span className="truncate whitespace-nowrap text-t3">{fact}</span>}
      </span>
      {value && last >= 4 && (
        <span
          className="pr-2 text-right whitespace-nowrap text-t2"
          style={{ gridColumn: `4 / ${last + 1}` }}
          title={value.title}
        >
          {value.content}
        </span>
      )}
    </div>
  );
}

interface Tracks {
  gridTemplateColumns: string;
  minWidth: number;
}

interface TrackOptions {
  /** Width of the buttons at the end of a row. */
  actions?: number;
  /** The column whose head has an arrow. */
  sorted?: string | null;
}

/**
 * The first column names the row: narrow and on the left, numbers too. Below the least widths the table scrolls.
 *
 * Room beyond them is shared by what the columns need for their whole titles and texts.
 */
export function tracksOf(
  columns: readonly TableColumn[],
  styles: readonly NumberStyle[],
  { actions = 0, sorted = null }: TrackOptions = {},
): Tracks {
  const least = columns.map(({ numeric, title, name, track }, index) => {
    if (track) return track.least;
    if (index === 0 && numeric) return 52;
    return numeric ? numberWidth(styles[index] as NumberStyle, title ?? name) : 92;
  });
  const tracks = least.map((width, index) => {
    const column = columns[index] as TableColumn;
    if (column.track) return column.track.width;
    if (index === 0 && column.numeric) return `${Math.max(width, wishedWidth(column, sorted))}px`;
    return `minmax(${width}px,${Math.max(width, wishedWidth(column, sorted))}fr)`;
  });
  if (actions > 0) tracks.push(`${actions}px`);
  return {
    gridTemplateColumns: tracks.join(" "),
    minWidth: least.reduce((sum, width) => sum + width, 24 + actions),
  };
}

/** Wide enough that no number of this style below a hundred is cut, nor a short title. */
function numberWidth(style: NumberStyle, title: string): number {
  const characters = style.kind === "fixed" ? style.decimals + 3 : style.kind === "mixed" ? 7 : 9;
  return Math.max(56, characters * 6.8 + 8, Math.min(title.length * 5.8 + 20, 80));
}

const LETTER = 5.8;
const ARROW = 14;
/** Rows whose texts decide how wide a column would like to be. */
const LOOKED_AT = 64;
const WIDEST_TEXT = 176;

/** What the whole title takes, and of a column of texts the longest of the first ones. */
function wishedWidth({ title, name, cells, numeric }: TableColumn, sorted: string | null): number {
  const head = (title ?? name).length * LETTER + 12 + (sorted === name ? ARROW : 0);
  if (numeric) return Math.ceil(head);
  let longest = 0;
  for (let row = 0; row < Math.min(cells.length, LOOKED_AT); row += 1)
    longest = Math.max(longest, String(cells[row] ?? "").length);
  return Math.ceil(Math.max(head, Math.min(longest * 6.6 + 12, WIDEST_TEXT)));
}

interface HeadCellProps {
  column: TableColumn;
  right: boolean;
  sort: Sort | null;
  onSort?: (sort: Sort) => void;
}

function HeadCell({ column, right, sort, onSort }: HeadCellProps) {
  const on = sort?.column === column.name;
  const content = column.head ?? <span className="truncate">{column.title ?? column.name}</span>;
  return (
    <div
      role="columnheader"
      tabIndex={-1}
      aria-sort={onSort ? (on ? sort.direction : "none") : undefined}
      title={column.headTitle}
      className={`flex min-w-0 items-center pr-2 last:pr-0 ${right ? "justify-end" : ""}`}
    >
      {onSort ? (
        <button
          type="button"
          onClick={() => onSort(nextSort(sort, column))}
          className={`flex h-6 min-w-0 items-center gap-0.5 rounded-chip hover:text-text ${on ? "font-medium text-text" : ""}`}
        >
          {content}
          {on && <Icon name={sort.direction === "ascending" ? "arrowUp" : "arrowDown"} size={12} />}
        </button>
      ) : (
        content
      )}
    </div>
  );
}

interface BodyCellProps {
  column: TableColumn;
  row: number;
  style: NumberStyle;
  first: boolean;
  cellRole: "gridcell" | "cell";
}

function BodyCell({ column, row, style, first, cellRole }: BodyCellProps) {
  const cell = column.cells[row];
  const odd = typeof cell === "number" && !Number.isFinite(cell);
  const look = column.look ?? (first ? "font-medium" : "");
  return (
    <div
      role={column.rowHeader ? "rowheader" : cellRole}
      tabIndex={-1}
      title={column.titleOf?.(row)}
      className={`min-w-0 truncate pr-2 last:pr-0 ${column.numeric && !first ? "text-right" : ""} ${look} ${odd ? "font-medium text-bad" : ""}`}
    >
      {column.render ? (
        column.render(row)
      ) : odd && column.marksNan ? (
        <span className="rounded-chip bg-nan px-1 text-on-nan">{cellText(cell, style)}</span>
      ) : (
        cellText(cell, style)
      )}
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
