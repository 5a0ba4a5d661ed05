/** The list of runs, as many as there are: only what is seen is drawn. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useId, useMemo, useRef } from "react";
import type { RunRow } from "@/api/types";
import { ageText } from "./cells";
import type { Sorting, TableItem } from "./grouping";
import { GroupLine, Head, RunLine } from "./TableLines";
import { describe, tracksOf } from "./tableColumns";

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

const ROW_HEIGHT = 24;

export function RunsTable(props: RunsTableProps) {
  const { rows, items, columns: keys, cursor, onCursor, onShow, onOpen, onHover } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const id = useId();
  const columns = useMemo(() => describe(rows, keys), [rows, keys]);
  const virtual = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 8,
  });
  const tracks = useMemo(() => tracksOf(columns), [columns]);
  const at = items.findIndex((item) => item.kind === "run" && item.id === cursor);
  // The row under the cursor stays in sight when a key moved it, here or from the page.
  useEffect(() => {
    if (at >= 0) virtual.scrollToIndex(at);
  }, [at, virtual]);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target !== event.currentTarget) return;
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 0) / ROW_HEIGHT) - 2);
    const next = stepTo(items, at, event.key, page);
    if (next !== null) onCursor(next);
    else if (event.key === "Enter" && cursor !== null && at >= 0) onOpen(cursor);
    else if (event.key === " " && cursor !== null && at >= 0) onShow(cursor);
    else return;
    event.preventDefault();
  };
  return (
    <div
      ref={scroller}
      role="grid"
      aria-label="Runs"
      aria-rowcount={items.length + 1}
      aria-colcount={columns.length + 4}
      aria-multiselectable="true"
      aria-activedescendant={at >= 0 ? `${id}-${cursor}` : undefined}
      tabIndex={0}
      data-keys="own"
      onKeyDown={onKeyDown}
      onPointerEnter={() => onHover(true)}
      onPointerLeave={() => onHover(false)}
      className="min-h-0 flex-1 overflow-auto focus-visible:-outline-offset-2"
    >
      <Head columns={columns} tracks={tracks} sorting={props.sorting} onSort={props.onSort} />
      <div className="relative" style={{ height: virtual.getTotalSize(), minWidth: tracks.minWidth }}>
        {virtual.getVirtualItems().map(({ index, start }) => {
          const item = items[index] as TableItem;
          const rowStyle = { ...tracks, transform: `translateY(${start}px)` };
          if (item.kind === "group")
            return (
              <GroupLine
                key={`group ${item.label}`}
                item={item}
                columns={columns}
                sorting={props.sorting}
                style={rowStyle}
                onFold={props.onFold}
              />
            );
          const run = rows.get(item.id);
          if (run === undefined) return null;
          return (
            <RunLine
              key={run.id}
              domId={`${id}-${run.id}`}
              row={index + 2}
              run={run}
              depth={item.depth}
              columns={columns}
              style={rowStyle}
              top={start}
              current={run.id === cursor}
              colourSlot={props.shown.get(run.id)}
              theme={props.theme}
              age={ageText(run, props.now)}
              address={props.addressOf(run.id)}
              onCursor={onCursor}
              onShow={onShow}
              onOpen={onOpen}
            />
          );
        })}
      </div>
    </div>
  );
}

/** The run that a key leads to; null for other keys. Lines of groups are passed over. */
export function stepTo(items: readonly TableItem[], at: number, key: string, page: number): string | null {
  const moves: Record<string, number> = {
    ArrowDown: at + 1,
    ArrowUp: at < 0 ? 0 : at - 1,
    PageDown: at + page,
    PageUp: at - page,
    Home: 0,
    End: items.length - 1,
  };
  const wanted = moves[key];
  if (wanted === undefined || items.length === 0) return null;
  const backward = wanted < at || key === "End";
  const from = Math.min(items.length - 1, Math.max(0, wanted));
  const ahead = items.slice(from);
  const behind = items.slice(0, from + 1).reverse();
  const tried = backward ? [...behind, ...ahead] : [...ahead, ...behind];
  const nearest = tried.find((item) => item.kind === "run");
  return nearest?.kind === "run" ? nearest.id : null;
}
