/** One key of the step data, fetched again after each step and shown by its hint, or as it is. */
import { lazy, type ReactNode, Suspense, useEffect, useRef, useState } from "react";
import type { StepDataOut } from "@/api/types";
import { useTheme } from "@/lib/theme";
import { useUrlState } from "@/lib/urlState";
import { useNoCommandsReason, useRunId, useRunState } from "@/live/hooks";
import { addWatch, useWatchedRows, useWatchList } from "@/live/watches";
import { Panel } from "@/ui";
import type { Sort } from "@/ui/table/DataTable";
import { type Hinted, isHinted } from "./hint";
import { StepDataView } from "./StepDataView";
import { useStepEntry } from "./useStepEntry";

const DebugPanel = lazy(() => import("./DebugPanel"));

interface EntryPanelProps {
  stepKey: string;
  menu?: ReactNode;
  corner?: ReactNode;
  filter: string;
  onFilter: (filter: string) => void;
  sort: Sort | null;
  onSort: (sort: Sort) => void;
  /** Called with each entry that arrives. */
  onEntry?: (entry: StepDataOut) => void;
  /** Whether it can be seen; what cannot is not fetched. */
  seen?: boolean;
  stale: string | null;
}

export function EntryPanel(props: EntryPanelProps) {
  const { stepKey, menu, corner, onEntry, seen = true, stale } = props;
  const [full, setFull] = useState<string | null>(null);
  const { data, error } = useStepEntry(seen ? stepKey : null, full === stepKey);
  // What was shown stays while the next is fetched, or while it is out of sight.
  const kept = useRef<StepDataOut | null>(null);
  if (data?.key === stepKey) kept.current = data;
  const entry = kept.current?.key === stepKey ? kept.current : null;
  const report = useRef(onEntry);
  report.current = onEntry;
  useEffect(() => {
    if (data !== null) report.current?.(data);
  }, [data]);
  const running = !(useRunState((state) => state.parked) ?? false);
  const theme = useTheme();
  if (error && entry === null) {
    const state = { kind: "error", title: "Could not load the data", text: error.message } as const;
    return <Panel title={stepKey} className="h-full" state={state} tools={corner} />;
  }
  if (entry === null) return <Panel title={stepKey} className="h-full" tools={corner} />;
  if (isHinted(entry)) return <HintedPanel {...props} entry={entry} running={running} />;
  return (
    <StepDataView
      {...{ entry, menu, corner, stale, running, theme }}
      filter={props.filter}
      onFilter={props.onFilter}
      sort={props.sort}
      onSort={props.onSort}
      onFull={() => setFull(stepKey)}
    />
  );
}

function HintedPanel({ entry, running, ...props }: EntryPanelProps & { entry: Hinted; running: boolean }) {
  const runId = useRunId() ?? "";
  const theme = useTheme();
  const { source } = entry.panel;
  const { sources } = useWatchList();
  const watched = useWatchedRows(source);
  const [feature, setFeature] = useUrlState("feature", "");
  const noCommands = useNoCommandsReason();
  const watchable = noCommands === null && source !== null && sources.includes(source);
  return (
    <Suspense fallback={<Panel title={entry.panel.title ?? entry.key} className="h-full" />}>
      <DebugPanel
        {...{ entry, runId, theme, running, watched }}
        menu={props.menu}
        corner={props.corner}
        stale={props.stale}
        filter={props.filter}
        onFilter={props.onFilter}
        sort={props.sort}
        onSort={props.onSort}
        selected={/^\d+$/.test(feature) ? Number(feature) : null}
        onSelect={(row) => setFeature(String(row))}
        onWatch={watchable ? (row) => void addWatch(row, source) : null}
      />
    </Suspense>
  );
}
