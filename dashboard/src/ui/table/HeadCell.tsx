import { Icon } from "@/ui/Icon";
import { nextSort, type Sort, type TableColumn } from "./columns";

interface HeadCellProps {
  column: TableColumn;
  right: boolean;
  sort: Sort | null;
  onSort?: (sort: Sort) => void;
}

/** The head of a column; it sorts where the table does. */
export function HeadCell({ column, right, sort, onSort }: HeadCellProps) {
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
