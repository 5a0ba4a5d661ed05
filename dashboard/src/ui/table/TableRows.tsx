/** A row of a table, and the line of a group of rows. */
import { memo, type ReactNode } from "react";
import { Icon } from "@/ui/Icon";
import { cellText, type NumberStyle } from "./columnFormat";
import type { TableColumn, TableGroup } from "./columns";
import type { Tracks } from "./tracks";

/** A text in place of the cells from one column to the one before another. */
export interface Span {
  from: number;
  to: number;
  content: ReactNode;
  title?: string;
}

/** Buttons at the end of a row. */
export interface RowActions {
  label: string;
  width: number;
  render: (row: number) => ReactNode;
}

interface BodyRowProps {
  columns: readonly TableColumn[];
  actions?: RowActions;
  spanOf?: (row: number) => Span | null;
  onSelect?: (row: number) => void;
  onOpen?: (row: number) => void;
  version?: unknown;
  domId: string;
  rowIndex: number;
  row: number;
  styles: readonly NumberStyle[];
  tracks: Tracks;
  start: number;
  isSelected: boolean;
  isCurrent: boolean;
  ariaSelected: boolean | undefined;
  look: string;
  cellRole: "gridcell" | "cell";
}

/** Drawn again only when something of its own changed. */
export const BodyRow = memo(function BodyRow(props: BodyRowProps) {
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
      aria-current={props.isCurrent || undefined}
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

interface GroupRowProps {
  group: TableGroup;
  columns: readonly TableColumn[];
  tracks: Tracks;
  start: number;
  onFold?: (key: string) => void;
}

/** The line of a group: its name, how many it holds, and one value under its column. */
export function GroupRow({ group, columns, tracks, start, onFold }: GroupRowProps) {
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
