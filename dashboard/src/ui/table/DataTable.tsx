/**
 * The table of every panel: columns, groups that fold, actions at the end of a row. Heads and summary rows stick.
 *
 * It holds 100,000 rows, because only those that are seen are drawn; `fit` draws all of a short table.
 */
import { type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from "react";
import { columnStyle, type NumberStyle } from "./columnFormat";
import type { Sort, TableColumn, TableGroup } from "./columns";
import { HeadCell } from "./HeadCell";
import { type RowLook, rowClass } from "./rowClass";
import { SUMMARY_HEIGHT, SummaryRows } from "./SummaryRows";
import { BodyRow, GroupRow, type RowActions, type Span } from "./TableRows";
import { itemAfter, type TableItem, tableItems } from "./tableItems";
import { tracksOf } from "./tracks";
import { ROW_HEIGHT, useFixedRows } from "./useFixedRows";
import { useStableOrder } from "./useStableOrder";

export type { Sort, TableColumn, TableGroup } from "./columns";

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
  /** The row that matters most, such as the cause: said to all, and brought into sight at first. */
  current?: number | null;
  /** Enter or a double click on a row. */
  onOpen?: (row: number) => void;
  /** Space on a row. */
  onToggle?: (row: number) => void;
  /** Which rows are chosen by `onToggle`. */
  isChosen?: (row: number) => boolean;
  /** Buttons at the end of a row. */
  actions?: RowActions;
  lookOf?: (row: number) => RowLook;
  /** A text in place of the cells from one column to the one before another, such as the reason of a damaged row. */
  spanOf?: (row: number) => Span | null;
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
/** Elements that rows share; more where a screen shows more. */
const POOL = 64;
/** Style of a column that draws its cells itself. */
const DRAWN: NumberStyle = { kind: "mixed" };

export function DataTable(props: DataTableProps) {
  const { label, columns, rows, sort = null, groups, selected = null, onSelect, onOpen, onToggle } = props;
  const { actions, lookOf, spanOf, isChosen, summary = false, running = false, fit = false } = props;
  const { headless = false, current = null } = props;
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
    foot: summary ? SUMMARY_HEIGHT : 0,
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
  const shownFirst = selected ?? current;
  const at = useMemo(() => indexOfRow(items, selected), [items, selected]);
  const { scrollToRow } = fixed;
  const target = useRef(-1);
  target.current = selected === null ? indexOfRow(items, current) : at;
  // Another selection, by a key here or from the page, is brought into sight; new values or another order scroll nothing.
  // biome-ignore lint/correctness/useExhaustiveDependencies: only the selection may scroll
  useEffect(() => {
    if (target.current >= 0 && !fit) scrollToRow(target.current);
  }, [shownFirst, fit, scrollToRow]);
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
              isCurrent={row === current}
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

/** Index of the item that shows a row; -1 where none does. */
const indexOfRow = (items: readonly TableItem[], row: number | null): number =>
  row === null ? -1 : items.findIndex((item) => item.kind === "row" && item.row === row);
