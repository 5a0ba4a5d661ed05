/** Runs › Sweeps: one sweep as a grid of its cells, the effects of its axes, curves, and one cell. */
import { useQueryClient } from "@tanstack/react-query";
import { lazy, type ReactNode, useMemo, useState } from "react";
import { ApiError } from "@/api/client";
import { useRunTable } from "@/api/runList";
import { type SweepStart, startSweep, stopSweep, useSweep, useSweeps } from "@/api/sweeps";
import type { SweepCell, SweepOut, SweepRow } from "@/api/types";
import { layGrid, secondsLeft } from "@/features/sweeps/grid";
import { formatDuration, formatPercent, plural } from "@/lib/format";
import { metricsOf, metricTitle } from "@/lib/metricNames";
import { useTheme } from "@/lib/theme";
import { showToast } from "@/lib/toasts";
import { useUrlChoice, useUrlState } from "@/lib/urlState";
import { Button, Icon, Menu, type MenuItem, Panel, PanelSlot } from "@/ui";
import { PanelArea, Pill, Strip } from "../Frame";
import { useGo } from "../navigation";

const CellsPanel = lazy(() => import("@/features/sweeps/CellsPanel"));
const EffectsPanel = lazy(() => import("@/features/sweeps/EffectsPanel"));
const CellCard = lazy(() => import("@/features/sweeps/CellCard"));
const CurvesPanel = lazy(() => import("@/features/scalars/CurvesPanel"));

/** What the tab row shows on its right: the first cell that needs somebody. */
function SweepPill({ sweep, act }: { sweep: SweepOut; act: SweepActions }) {
  const cell = sweep.grid.find(({ state }) => state === "failed" || state === "killed");
  if (cell === undefined) return null;
  const share = cell.share === null ? "" : ` at ${formatPercent(cell.share)}`;
  const settings = sweep.axes.map(({ key, label }) => `${label} ${cell.choices[key]}`).join(", ");
  const canRun = act.noControl === null && !sweep.pool;
  return (
    <Pill
      tone="warn"
      glyph={<Icon name="warning" size={14} />}
      title={`Cell ${cell.job} ${cell.state}${share}`}
      text={`${settings}${cell.error ? `: ${cell.error}` : ""}`}
      action={
        canRun
          ? { label: cell.state === "failed" ? "Run again" : "Resume cell", run: () => act.runCell(cell) }
          : undefined
      }
    />
  );
}

export default function SweepsTab({ tabs }: { tabs: (pill: ReactNode) => ReactNode }) {
  const { rows, loaded, error, sweep, setSweep, setValue } = useShownSweep();
  const [rowAxis, setRowAxis] = useUrlState("rows", "");
  const grid = useMemo(() => (sweep ? layGrid(sweep.axes, sweep.grid, rowAxis) : null), [sweep, rowAxis]);
  const act = useSweepActions(sweep);
  if (sweep === null || grid === null) {
    return (
      <>
        <Strip>
          <p className="text-t3">Runs that differ in a few settings, as a grid.</p>
        </Strip>
        {tabs(null)}
        <PanelArea tab="sweeps">
          <Panel
            title="Sweeps"
            className="h-full"
            state={
              error !== null
                ? { kind: "error", title: "Could not load the sweeps", text: error }
                : !loaded || rows.length > 0
                  ? { kind: "loading" }
                  : {
                      kind: "empty",
                      title: "No sweeps yet",
                      text: (
                        <>
                          Start one in a terminal:{" "}
                          <code className="font-mono">midstep train -m loop=mlp trainer.seed=0,1,2</code>.
                        </>
                      ),
                    }
            }
          />
        </PanelArea>
      </>
    );
  }
  const columns = grid.columnAxes.map(({ label }) => label).join(" × ") || "none";
  return (
    <>
      <Strip>
        <Choice
          name="Sweep"
          text={sweep.name}
          mono
          items={rows.map((row) => ({
            label: row.name,
            note: row.directory.split("/").at(-1),
            checked: row.id === sweep.id,
            onSelect: () => setSweep(row.id),
          }))}
        />
        <Choice
          name="Value"
          text={metricTitle(sweep.value)}
          items={sweep.value_names.map((name) => ({
            label: metricTitle(name),
            note: <span className="font-mono">{name}</span>,
            checked: name === sweep.value,
            onSelect: () => setValue(name === sweep.value_names[0] ? "" : name),
          }))}
        />
        <Choice
          name="Rows"
          text={grid.rowAxis.label}
          items={sweep.axes.map((axis) => ({
            label: axis.label,
            note: <span className="font-mono">{axis.key}</span>,
            checked: axis.key === grid.rowAxis.key,
            onSelect: () => setRowAxis(axis.key),
          }))}
        />
        <span className="px-1 text-t3">
          Columns <span className="font-medium text-text">{columns}</span>
        </span>
        <div className="ml-auto flex items-center gap-2">
          <RunButtons sweep={sweep} act={act} />
        </div>
      </Strip>
      {tabs(<SweepPill sweep={sweep} act={act} />)}
      <SweepPanels sweep={sweep} grid={grid} act={act} />
    </>
  );
}

interface SweepPanelsProps {
  sweep: SweepOut;
  grid: ReturnType<typeof layGrid>;
  act: SweepActions;
}

function SweepPanels({ sweep, grid, act }: SweepPanelsProps) {
  const theme = useTheme();
  const go = useGo();
  const [at, setAt] = useUrlState("cell", "");
  const [view, setView] = useUrlChoice("cells", ["grid", "table"]);
  const focused = sweep.grid.find(({ job }) => String(job) === at) ?? null;
  const focus = (job: number) => setAt(String(job));
  const open = (cell: SweepCell) => {
    if (cell.run_id !== null) go(`/runs/${encodeURIComponent(cell.run_id)}`);
  };
  const runs = useSweepCurves(sweep, grid.rowAxis.key, focused);
  return (
    <PanelArea tab="sweeps">
      <div className="grid h-full min-h-[560px] grid-cols-[minmax(0,1fr)_452px] grid-rows-[minmax(0,1.26fr)_minmax(0,1fr)] gap-2 max-[1199px]:h-auto max-[1199px]:grid-cols-1 max-[1199px]:grid-rows-[400px_320px_380px_240px]">
        <PanelSlot title="Cells">
          <CellsPanel
            sweep={sweep}
            grid={grid}
            focused={focused}
            onFocus={focus}
            onOpen={open}
            view={view}
            onView={setView}
          />
        </PanelSlot>
        <div className="row-span-2 grid min-h-0 grid-rows-[minmax(0,1fr)_240px] gap-2 max-[1199px]:contents">
          <PanelSlot title="Curves">
            <CurvesPanel
              runs={runs}
              onPick={(id) => {
                const cell = sweep.grid.find(({ run_id }) => run_id === id);
                if (cell) focus(cell.job);
              }}
              emptyText="Curves start with the first cell."
            />
          </PanelSlot>
          <PanelSlot title="Cell">
            <CellCard
              sweep={sweep}
              cell={focused}
              onOpen={open}
              onRun={act.runCell}
              onStop={act.stopCell}
              noControl={act.noControl}
            />
          </PanelSlot>
        </div>
        <PanelSlot title="Effect of each axis">
          <EffectsPanel sweep={sweep} grid={grid} focused={focused} onFocus={focus} theme={theme} />
        </PanelSlot>
      </div>
    </PanelArea>
  );
}

/** The runs of the cells for the curves: coloured by the level of the rows; the focused one alone once there is one. */
function useSweepCurves(sweep: SweepOut, rowAxis: string, focused: SweepCell | null) {
  const table = useRunTable(({ rows }) => rows);
  const levels = sweep.axes.find(({ key }) => key === rowAxis)?.values ?? [];
  return useMemo(() => {
    const named = new Set<string>();
    const cells = sweep.grid.filter(({ run_id }) => run_id !== null && table.has(run_id));
    // The focused one first: a level has one name at the end of its lines, and it should be this one's.
    const ordered = focused
      ? [...cells.filter((one) => one.job === focused.job), ...cells.filter((one) => one.job !== focused.job)]
      : cells;
    return ordered.flatMap((cell) => {
      const run = table.get(cell.run_id ?? "");
      if (run === undefined) return [];
      const level = cell.choices[rowAxis] ?? "";
      const isFirst = !named.has(level);
      named.add(level);
      return [
        {
          id: run.id,
          name: cell.job === focused?.job ? `cell ${cell.job}` : isFirst ? level : "",
          live: run.live,
          step: run.step,
          timeline: run.timeline,
          scalars: metricsOf(run),
          colourSlot: focused !== null && cell.job !== focused.job && !isFirst ? 99 : levels.indexOf(level),
        },
      ];
    });
  }, [sweep.grid, table, rowAxis, levels, focused]);
}

function RunButtons({ sweep, act }: { sweep: SweepOut; act: SweepActions }) {
  const isRunning = sweep.pool;
  const onlyFailed = sweep.open === 0 && (sweep.states.failed ?? 0) > 0;
  const count = onlyFailed ? (sweep.states.failed ?? 0) : sweep.open;
  const none = count === 0 ? "All cells are finished" : null;
  return (
    <>
      {isRunning && <TimeLeft sweep={sweep} />}
      {isRunning && (
        <Button icon="pause" busy={act.busy} disabledReason={act.noControl} onClick={act.stop}>
          Stop sweep
        </Button>
      )}
      <Button
        look="filled"
        icon="play"
        iconFilled
        busy={isRunning ? null : act.busy}
        disabledReason={act.noControl ?? (isRunning ? "The sweep is running" : none)}
        onClick={() => act.start(onlyFailed)}
      >
        {onlyFailed
          ? `Run ${plural(count, "failed cell")} again`
          : count === 0
            ? "Run open cells"
            : `Run ${plural(count, "open cell")}`}
      </Button>
    </>
  );
}

/** How many cells train now, and how long the others take. */
function TimeLeft({ sweep }: { sweep: SweepOut }) {
  const table = useRunTable(({ rows }) => rows);
  const left = secondsLeft(sweep.grid, ({ run_id }) => {
    const run = table.get(run_id ?? "");
    return run?.started_at && run.ended_at ? run.ended_at - run.started_at : null;
  });
  const running = sweep.states.running ?? 0;
  if (running === 0) return null;
  return (
    <span className="px-1 text-t3">
      {running} at a time{left !== null && `, ${formatDuration(left)} left`}
    </span>
  );
}

interface SweepActions {
  noControl: string | null;
  busy: string | null;
  start: (retryFailed: boolean) => void;
  stop: () => void;
  runCell: (cell: SweepCell) => void;
  stopCell: (cell: SweepCell) => void;
}

/** What can be asked of a sweep; a refusal becomes a message. */
function useSweepActions(sweep: SweepOut | null): SweepActions {
  const queries = useQueryClient();
  const [busy, setBusy] = useState<string | null>(null);
  const attempt = async (verb: string, refused: string, send: () => Promise<void>) => {
    setBusy(verb);
    try {
      await send();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      showToast({ kind: "failed", title: refused, text: error.message });
    } finally {
      await queries.invalidateQueries({ queryKey: ["sweeps"] });
      setBusy(null);
    }
  };
  const id = sweep?.id ?? "";
  const start = (options: SweepStart) =>
    void attempt("Starting…", "The sweep did not start.", () => startSweep(id, options));
  return {
    noControl: sweep?.why_not ?? null,
    busy,
    start: (retryFailed) => start({ retryFailed }),
    stop: () => void attempt("Stopping…", "The sweep was not stopped.", () => stopSweep(id)),
    runCell: ({ job }) => start({ retryFailed: true, cells: [job] }),
    stopCell: ({ job }) => void attempt("Stopping…", "The cell was not stopped.", () => stopSweep(id, job)),
  };
}

/** The sweep that the address names, else the newest. */
function useShownSweep() {
  const list = useSweeps();
  const [wanted, setSweep] = useUrlState("sweep", "");
  const [value, setValue] = useUrlState("value", "");
  const rows: readonly SweepRow[] = list.data?.sweeps ?? [];
  const id = rows.find((row) => row.id === wanted)?.id ?? rows[0]?.id ?? null;
  const { data, error } = useSweep(id, value);
  return {
    rows,
    loaded: list.data !== undefined,
    error: list.error?.message ?? error?.message ?? null,
    sweep: data ?? null,
    setSweep,
    setValue,
  };
}

interface ChoiceProps {
  name: string;
  text: string;
  mono?: boolean;
  items: MenuItem[];
}

function Choice({ name, text, mono, items }: ChoiceProps) {
  return (
    <Menu
      align="start"
      heading={name}
      items={items}
      trigger={
        <Button>
          <span className="font-normal text-t3">{name}</span>
          <span className={mono ? "font-mono" : ""}>{text}</span>
          <Icon name="chevronDown" size={14} />
        </Button>
      }
    />
  );
}
