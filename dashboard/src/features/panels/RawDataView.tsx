/** One value of the step data, shown by its shape. */
import { useMemo, useState } from "react";
import type { Theme } from "@/charts/colors/viridis";
import { formatCount } from "@/lib/format";
import { cellText, columnStyle } from "@/ui/table/columnFormat";
import { DataTable, type Sort, type TableColumn } from "@/ui/table/DataTable";
import type { Cell } from "@/ui/table/sortCells";
import type { Shaped } from "./dataShape";
import { HeatView } from "./HeatView";
import { filterRows, statistics, tableColumns } from "./tableModel";

interface RawDataViewProps {
  name: string;
  shaped: Shaped;
  filter: string;
  sort: Sort | null;
  onSort: (sort: Sort) => void;
  running: boolean;
  theme: Theme;
}

export function RawDataView(props: RawDataViewProps) {
  const { shaped, theme } = props;
  switch (shaped.kind) {
    case "table":
      return <TableValue {...props} shaped={shaped} />;
    case "matrix":
      return <HeatView name={props.name} matrix={shaped} theme={theme} />;
    case "entries":
      return <Entries entries={shaped.entries} />;
    case "summary":
      return <Entries entries={statistics(shaped.summary)} note="Too large to send. Statistics are shown." />;
    case "scalar":
      return <Entries entries={[["value", shaped.value]]} />;
    case "text":
      return <pre className="overflow-auto px-3 py-1 font-mono whitespace-pre-wrap">{shaped.text}</pre>;
    case "group":
      return (
        <section
          aria-label={props.name}
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
          tabIndex={0}
          data-keys="own"
          className="min-h-0 flex-1 overflow-auto"
        >
          <Members {...props} members={shaped.members} />
        </section>
      );
  }
}

function TableValue(props: RawDataViewProps & { shaped: Extract<Shaped, { kind: "table" }> }) {
  const { name, shaped, filter, sort, onSort, running } = props;
  const [selected, setSelected] = useState<number | null>(null);
  const columns: TableColumn[] = useMemo(() => tableColumns(shaped), [shaped]);
  const rows = useMemo(() => filterRows(columns, filter), [columns, filter]);
  return (
    <>
      <DataTable
        label={name}
        columns={columns}
        rows={rows ?? undefined}
        sort={sort}
        onSort={onSort}
        selected={selected}
        onSelect={setSelected}
        summary={shaped.rows > 1}
        running={running}
      />
      {rows?.length === 0 && <p className="absolute top-8 px-3 text-t3">No row matches “{filter}”.</p>}
      {shaped.rest.length > 0 && (
        <div className="max-h-32 shrink-0 overflow-auto border-t border-line">
          <Members {...props} members={shaped.rest} />
        </div>
      )}
    </>
  );
}

/** Scalars side by side as a list, everything else under its own name. */
function Members(props: RawDataViewProps & { members: [string, Shaped][] }) {
  const scalars = props.members.filter(([, { kind }]) => kind === "scalar");
  const others = props.members.filter(([, { kind }]) => kind !== "scalar");
  const entries = scalars.map(([name, shaped]): [string, Cell] => [
    name,
    shaped.kind === "scalar" ? shaped.value : null,
  ]);
  return (
    <>
      {entries.length > 0 && <Entries entries={entries} />}
      {others.map(([name, shaped]) => (
        <section key={name} aria-label={name}>
          <h3 className="px-3 pt-2 pb-1 font-medium">
            {name} <span className="font-normal text-t3">{extentOf(shaped)}</span>
          </h3>
          <div className={`flex flex-col ${shaped.kind === "table" ? "max-h-60" : ""}`}>
            <RawDataView {...props} name={name} shaped={shaped} filter="" />
          </div>
        </section>
      ))}
    </>
  );
}

/** How large a value is, in words. */
export function extentOf(shaped: Shaped): string {
  switch (shaped.kind) {
    case "table":
      return `${formatCount(shaped.rows)} rows`;
    case "matrix":
      return `${formatCount(shaped.rows)} × ${formatCount(shaped.columns)}`;
    case "entries":
      return `${formatCount(shaped.entries.length)} values`;
    case "summary":
      return shaped.summary.shape.map(formatCount).join(" × ");
    case "group":
      return `${formatCount(shaped.members.length)} parts`;
    default:
      return "";
  }
}

function Entries({ entries, note }: { entries: [string, Cell][]; note?: string }) {
  return (
    <div className="min-h-0 overflow-auto">
      <dl className="max-w-[480px]">
        {entries.map(([name, cell]) => (
          <div key={name} className="flex h-6 items-center gap-4 px-3 hover:bg-s2">
            <dt className="min-w-0 flex-1 truncate text-t3">{name}</dt>
            <dd
              className={`truncate font-medium ${typeof cell === "number" && !Number.isFinite(cell) ? "text-bad" : ""}`}
            >
              {cellText(cell, columnStyle([cell]))}
            </dd>
          </div>
        ))}
      </dl>
      {note && <p className="px-3 py-1 text-t3">{note}</p>}
    </div>
  );
}
