/** Mean, minimum and maximum of each column, below the rows. */
import { useMemo } from "react";
import { type Summary, summarise } from "@/lib/statistics";
import { cellText, type NumberStyle } from "./columnFormat";
import type { TableColumn } from "./columns";
import type { Tracks } from "./tracks";

const SUMMARIES = ["mean", "minimum", "maximum"] as const;
const SUMMARY_WORDS = { mean: "mean", minimum: "min", maximum: "max" };
const ROW_HEIGHT = 22;
export const SUMMARY_HEIGHT = SUMMARIES.length * ROW_HEIGHT;

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

export function SummaryRows({ columns, rows, styles, tracks }: SummaryRowsProps) {
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
