/** All runs of the server: a table with true end states, and the curves of the chosen ones over each other. */

import { lazy, type ReactNode, Suspense, useCallback, useMemo } from "react";
import { type RunTable, useRunTable } from "@/api/runList";
import { useAllRuns } from "@/api/runs";
import { useSweeps } from "@/api/sweeps";
import { saveRunsCsv, saveRunsJson } from "@/features/runList/exportRuns";
import { FilterBar } from "@/features/runList/FilterBar";
import { RunsTable, stepTo } from "@/features/runList/RunsTable";
import { type RunsView, useRunsView } from "@/features/runList/useRunsView";
import { ColumnsMenu, GroupMenu } from "@/features/runList/ViewMenus";
import { useAction } from "@/lib/actions";
import { openDialog } from "@/lib/dialogs";
import { formatCount } from "@/lib/format";
import { NOT_UP_TO_DATE, NOTHING_TO_EXPORT, VIEW_ONLY } from "@/lib/messages";
import { metricsOf } from "@/lib/metricNames";
import { useTheme } from "@/lib/theme";
import { useUrlChoice, useUrlState } from "@/lib/urlState";
import { useConnection } from "@/live/hooks";
import { Button, Panel, PanelSlot, type PanelState } from "@/ui";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { PanelArea, Strip, TabRow } from "../Frame";
import { addressOf, useGo } from "../navigation";
import { useNow } from "../useNow";

const CurvesPanel = lazy(() => import("@/features/scalars/CurvesPanel"));
const ConfigDiffPanel = lazy(() => import("@/features/runList/ConfigDiffPanel"));

const NO_START = "Only midstep serve can start runs from the page";

const SweepsTab = lazy(() => import("./SweepsTab"));

const TABS = ["list", "sweeps"] as const;

export function RunsPage() {
  useAllRuns();
  const [tab, setTab] = useUrlChoice("tab", TABS);
  const total = useRunTable(({ total: all }) => all);
  const sweeps = useSweeps();
  const tabs = (pill: ReactNode) => (
    <TabRow
      label="Views of the runs"
      value={tab}
      tabs={[
        { value: "list", label: "List", count: total },
        { value: "sweeps", label: "Sweeps", count: sweeps.data?.sweeps.length },
      ]}
      onChange={setTab}
      pill={pill}
    />
  );
  if (tab === "list") return <ListTab tabs={tabs(null)} />;
  return (
    <Suspense fallback={<main className="flex-1" />}>
      <SweepsTab tabs={tabs} />
    </Suspense>
  );
}

function ListTab({ tabs }: { tabs: ReactNode }) {
  const table = useRunTable();
  const view = useRunsView(table);
  const { canControl } = useConnection();
  const noStart = !table.complete || table.canStart ? null : canControl ? NO_START : VIEW_ONLY;
  const [diff, setDiff] = useUrlChoice("diff", ["off", "on"]);
  const [large, setLarge] = useUrlChoice("large", ["none", "curves"]);
  const [cursor, setCursor] = useUrlState("at", "");
  const runs = useMemo(
    () =>
      view.chosen.map((run) => ({
        id: run.id,
        name: run.name,
        live: run.live,
        step: run.step,
        timeline: run.timeline,
        scalars: metricsOf(run),
        colourSlot: view.shown.get(run.id) ?? 0,
      })),
    [view.chosen, view.shown],
  );
  const curves = (
    <PanelSlot title="Curves">
      <CurvesPanel
        runs={runs}
        expanded={large === "curves"}
        onExpand={() => setLarge(large === "curves" ? "none" : "curves")}
        onPick={setCursor}
        emptyText="Select runs to compare their curves."
      />
    </PanelSlot>
  );
  return (
    <>
      <Strip>
        <FilterBar
          runs={[...table.rows.values()]}
          conditions={view.conditions}
          text={view.text}
          onChange={view.setFilter}
        />
        <GroupMenu columns={view.columns} group={view.group} onGroup={view.setGroup} />
        <ColumnsMenu columns={view.columns} onColumns={view.setColumns} />
        <div className="ml-auto flex items-center gap-2">
          <span className="px-1 text-t3">{formatCount(view.shown.size)} selected</span>
          <Button
            look={diff === "on" ? "quiet" : "ghost"}
            icon="columns"
            aria-pressed={diff === "on"}
            onClick={() => setDiff(diff === "on" ? "off" : "on")}
          >
            Config diff
          </Button>
          <Button look="filled" icon="plus" disabledReason={noStart} onClick={() => openDialog("new-run")}>
            New run
          </Button>
        </div>
      </Strip>
      {tabs}
      <PanelArea tab="list">
        {large === "curves" ? (
          curves
        ) : (
          <div
            className={`grid h-full min-h-[420px] grid-cols-[minmax(0,1fr)_452px] gap-2 max-[1199px]:h-auto max-[1199px]:grid-cols-1 max-[1199px]:grid-rows-[420px_380px] ${diff === "on" ? "grid-rows-[minmax(0,1fr)_196px]" : "grid-rows-[minmax(0,1fr)]"}`}
          >
            <PanelSlot title="Runs">
              <TablePanel view={view} cursor={cursor || null} setCursor={setCursor} />
            </PanelSlot>
            {curves}
            {diff === "on" && (
              <div className="col-span-full min-h-0">
                <PanelSlot title="Config diff">
                  <ConfigDiffPanel runs={view.chosen} shown={view.shown} onClose={() => setDiff("off")} />
                </PanelSlot>
              </div>
            )}
          </div>
        )}
      </PanelArea>
    </>
  );
}

interface TablePanelProps {
  view: RunsView;
  cursor: string | null;
  setCursor: (id: string) => void;
}

function TablePanel({ view, cursor, setCursor }: TablePanelProps) {
  const table = useRunTable();
  const go = useGo();
  const theme = useTheme();
  const now = useNow();
  const open = useCallback((id: string) => go(`/runs/${encodeURIComponent(id)}`), [go]);
  useTableKeys(view, cursor, setCursor, open);
  const damaged = view.matching.filter(({ state }) => state === "damaged").length;
  return (
    <Panel
      title="Runs"
      fact={table.complete ? <Fact view={view} damaged={damaged} /> : undefined}
      stale={table.complete && table.error !== null ? NOT_UP_TO_DATE : null}
      className="h-full"
      tools={
        <ExportMenu
          subject="runs"
          disabledReason={view.items.length === 0 ? NOTHING_TO_EXPORT : null}
          items={[
            {
              label: "CSV, as listed",
              onSelect: () => saveRunsCsv(table.rows, view.items, view.columns.shown),
            },
            { label: "JSON, with all settings", onSelect: () => saveRunsJson(table.rows, view.items) },
          ]}
        />
      }
      state={stateOf(table, view)}
    >
      <RunsTable
        rows={table.rows}
        items={view.items}
        columns={view.columns.shown}
        sorting={view.sorting}
        onSort={view.setSorting}
        cursor={cursor}
        onCursor={setCursor}
        shown={view.shown}
        onShow={view.toggleShown}
        onOpen={open}
        onFold={view.fold}
        onHover={view.setHovered}
        addressOf={runAddress}
        theme={theme}
        now={now}
      />
    </Panel>
  );
}

const runAddress = (id: string) => addressOf(`/runs/${encodeURIComponent(id)}`, window.location.search);

function Fact({ view, damaged }: { view: RunsView; damaged: number }) {
  const { rows, total } = useRunTable();
  const all =
    rows.size < total ? `newest ${formatCount(rows.size)} of ${formatCount(total)}` : formatCount(total);
  const filtered = view.matching.length < rows.size;
  return (
    <span className="flex gap-2">
      {filtered ? `${formatCount(view.matching.length)} of ${all} match` : all}
      {damaged > 0 && <span className="text-warn">{formatCount(damaged)} damaged</span>}
    </span>
  );
}

function stateOf(table: RunTable, view: RunsView): PanelState {
  if (!table.complete && table.error !== null)
    return { kind: "error", title: "Could not load the runs", text: table.error };
  if (!table.complete) return { kind: "loading" };
  if (view.matching.length > 0) return { kind: "data" };
  if (table.rows.size > 0)
    return {
      kind: "empty",
      title: "No run matches",
      text: "Change or clear the filter.",
      action: (
        <Button small onClick={() => view.setFilter([], "")}>
          Clear filter
        </Button>
      ),
    };
  return {
    kind: "empty",
    title: "No runs yet",
    text: (
      <>
        Start one with New run, or attach your own loop:{" "}
        <code className="font-mono">midstep.attach(model, optimizer, loader)</code>.
      </>
    ),
  };
}

/** J and K move, X ticks, Enter opens, also while focus is not in the table. */
function useTableKeys(
  view: RunsView,
  cursor: string | null,
  setCursor: (id: string) => void,
  open: (id: string) => void,
): void {
  const go = useGo();
  const at = view.items.findIndex((item) => item.kind === "run" && item.id === cursor);
  const none = at < 0 ? "Select a run with J or K first" : null;
  const move = (key: string) => {
    const next = stepTo(view.items, at, key, 1);
    if (next !== null) setCursor(next);
  };
  const group = "View";
  useAction({ id: "run-next", title: "Next run", group, keys: "J", run: () => move("ArrowDown") });
  useAction({ id: "run-previous", title: "Previous run", group, keys: "K", run: () => move("ArrowUp") });
  useAction({
    id: "run-show",
    title: "Show or hide this curve",
    group,
    keys: "X",
    disabledReason: none,
    run: () => cursor !== null && view.toggleShown(cursor),
  });
  useAction({
    id: "run-open",
    title: "Open the run",
    group,
    keys: "Enter",
    disabledReason: none,
    run: () => cursor !== null && open(cursor),
  });
  useAction({
    id: "run-live",
    title: "Open the run on Live",
    group,
    keys: "O",
    disabledReason: none,
    run: () => cursor !== null && go("/live", { run: cursor }),
  });
}
