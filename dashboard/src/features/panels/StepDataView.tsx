/** One key of the step data as a panel: its name in the header, its value below. */
import { type ReactNode, useMemo } from "react";
import type { StepDataOut } from "@/api/types";
import type { Theme } from "@/charts/colors/viridis";
import { downloadText } from "@/lib/download";
import { formatCount } from "@/lib/format";
import { Button, Panel } from "@/ui";
import { jsonOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
import type { Sort } from "@/ui/table/DataTable";
import { shapeOf } from "./dataShape";
import { FilterField, PROBLEM_ID } from "./FilterField";
import { extentOf, RawDataView } from "./RawDataView";
import { csvOfShaped, filterProblem, tableColumns } from "./tableModel";

export interface StepDataViewProps {
  entry: StepDataOut;
  /** Beside the title: another key to choose. */
  menu?: ReactNode;
  /** Last of the tools. */
  corner?: ReactNode;
  filter: string;
  onFilter: (filter: string) => void;
  sort: Sort | null;
  onSort: (sort: Sort) => void;
  /** Asks for tensors whole that came as summaries. */
  onFull: () => void;
  stale: string | null;
  running: boolean;
  theme: Theme;
}

export function StepDataView(props: StepDataViewProps) {
  const { entry, menu, corner, filter, onFilter, sort, onSort, stale, running, theme } = props;
  const shaped = useMemo(() => shapeOf(entry.data), [entry.data]);
  const problem = useMemo(
    () => (shaped.kind === "table" ? filterProblem(tableColumns(shaped), filter) : null),
    [shaped, filter],
  );
  const csv = csvOfShaped(shaped) === null ? "has no rows" : null;
  const name = `${entry.key}-${entry.step}`;
  const tools = (
    <>
      {entry.summarised && (
        <Button small look="ghost" onClick={props.onFull}>
          Load full tensor
        </Button>
      )}
      {shaped.kind === "table" && <FilterField value={filter} onChange={onFilter} problem={problem} />}
      <ExportMenu
        subject={entry.key}
        items={[
          {
            label: "JSON",
            onSelect: () => downloadText(`${name}.json`, jsonOf(entry.data), "application/json"),
          },
          {
            label: "CSV",
            disabledReason: csv,
            onSelect: () => downloadText(`${name}.csv`, csvOfShaped(shaped) ?? "", "text/csv"),
          },
        ]}
      />
      {corner}
    </>
  );
  const fact = (
    <span className="flex items-center gap-2">
      {menu}
      <span className="truncate">
        {[extentOf(shaped), `step ${formatCount(entry.step)}`].filter(Boolean).join(" · ")}
      </span>
    </span>
  );
  return (
    <Panel title={entry.key} fact={fact} stale={stale} tools={tools} className="h-full">
      {problem && (
        <p id={PROBLEM_ID} role="alert" className="px-3 pb-1 text-right text-bad">
          {problem}
        </p>
      )}
      {entry.note && <p className="px-3 pb-1 text-warn">{entry.note}</p>}
      <RawDataView
        {...{ name: entry.key, shaped, sort, onSort, running, theme }}
        filter={problem ? "" : filter}
      />
    </Panel>
  );
}
