/** One key of the step data as a panel: its name in the header, its value below. */
import { useMemo } from "react";
import type { StepDataOut } from "@/api/types";
import { jsonOf } from "@/charts/csv";
import type { Sort } from "@/charts/DataTable";
import { ExportMenu } from "@/charts/ExportMenu";
import type { Theme } from "@/charts/viridis";
import { downloadText } from "@/lib/download";
import { formatCount } from "@/lib/format";
import { Button, Field, Icon, IconButton, Menu, Panel } from "@/ui";
import { shapeOf } from "./shape";
import { csvOfShaped, filterProblem, tableColumns } from "./tableModel";
import { extentOf, ValueView } from "./ValueView";

export interface StepDataViewProps {
  entry: StepDataOut;
  /** Keys that can be shown instead; none where a list stands beside. */
  keys: readonly string[];
  onKey: (key: string) => void;
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
  const { entry, keys, onKey, filter, onFilter, sort, onSort, stale, running, theme } = props;
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
          Load whole
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
    </>
  );
  const fact = (
    <span className="flex items-center gap-2">
      {keys.length > 1 && (
        <Menu
          align="start"
          heading="Step data"
          trigger={<IconButton icon="chevronDown" label="Choose a key" className="-mx-1" />}
          items={keys.map((key) => ({ label: key, checked: key === entry.key, onSelect: () => onKey(key) }))}
        />
      )}
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
      <ValueView
        {...{ name: entry.key, shaped, sort, onSort, running, theme }}
        filter={problem ? "" : filter}
      />
    </Panel>
  );
}

const PROBLEM_ID = "step-data-filter-problem";

interface FilterFieldProps {
  value: string;
  onChange: (value: string) => void;
  problem: string | null;
}

function FilterField({ value, onChange, problem }: FilterFieldProps) {
  return (
    <span className="relative">
      <Icon name="filter" size={14} className="pointer-events-none absolute top-[5px] left-1.5 text-t3" />
      <Field
        small
        data-filter=""
        label="Filter rows, for example win_rate > 0.05"
        placeholder="Filter rows"
        error={problem}
        errorPlace="elsewhere"
        aria-describedby={problem ? PROBLEM_ID : undefined}
        value={value}
        onChange={onChange}
        onRestore={() => onChange("")}
        className="w-48 pl-6.5 font-normal"
      />
    </span>
  );
}
