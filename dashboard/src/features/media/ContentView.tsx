/** A logged text in a fixed-width face, or a logged table that sorts. */
import { useMemo, useState } from "react";
import { useMediaContent } from "@/api/media";
import type { MediaContent } from "@/api/types";
import { DataTable, type Sort, type TableColumn } from "@/ui/table/DataTable";
import { ROW_HEIGHT } from "@/ui/table/useFixedRows";
import { numberedTable } from "./tableOf";

interface ContentViewProps {
  runId: string;
  groupId: string;
  number: number;
  /** What it is, for those who cannot see it. */
  label: string;
}

const MOST_ROWS = 9;

export function ContentView({ runId, groupId, number, label }: ContentViewProps) {
  const { data, error } = useMediaContent(runId, groupId, number);
  if (data === undefined)
    return <p className={error === null ? "text-t3" : "text-bad"}>{error?.message ?? "Loading…"}</p>;
  if (data.text === null) return <Table content={data} label={label} />;
  return (
    <section
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
      tabIndex={0}
      data-keys="own"
      className="max-h-60 overflow-auto"
    >
      <pre className="font-mono whitespace-pre-wrap [overflow-wrap:anywhere]">{data.text}</pre>
    </section>
  );
}

function Table({ content, label }: { content: MediaContent; label: string }) {
  const [sort, setSort] = useState<Sort | null>(null);
  const columns = useMemo((): TableColumn[] => numberedTable(content), [content]);
  const height = (Math.min(content.rows.length, MOST_ROWS) + 1) * ROW_HEIGHT + 8;
  return (
    <div className="-mx-3 flex min-w-0 flex-col" style={{ height }}>
      <DataTable label={label} columns={columns} sort={sort} onSort={setSort} />
    </div>
  );
}
