import { lazy, Suspense } from "react";
import { useLocation } from "wouter";
import { useRunDetail, useRuns } from "@/api/runs";
import { fromWire, type StateOut } from "@/api/types";
import { openDialog } from "@/lib/dialogs";
import { formatCount, formatRate, formatSpeed, formatValue, NONE } from "@/lib/format";
import { switchTheme, useTheme } from "@/lib/theme";
import { hasEnded, toggleOf } from "@/live/commandAvailability";
import { useCommandReason, useRunId, useRunState, useStale } from "@/live/hooks";
import { Icon, IconButton, KeyCap, Menu, PartBoundary, STATE_LOOKS, StateChip } from "@/ui";
import { ConnectionBadge } from "./ConnectionBadge";
import { Fact } from "./Fact";
import { useGo } from "./navigation";

const EndedFacts = lazy(() => import("./EndedFacts"));
const OtherLoss = lazy(() => import("./OtherLoss"));
const RunCounts = lazy(() => import("./RunCounts"));

/** Pages about results and files; step and loss of the followed run would be those of another training. */
const OF_NO_RUN: Readonly<Record<string, string>> = { "/influence": "Influence", "/data": "Data" };

/** What runs, in which state, and where: 44 px over every page. */
export function TopBar() {
  const theme = useTheme();
  const [location] = useLocation();
  return (
    <header className="flex min-h-11 shrink-0 flex-wrap items-center gap-x-3 gap-y-1 border-b border-line bg-surface px-4 max-[900px]:py-2">
      {location === "/runs" ? (
        <PartBoundary>
          <Suspense>
            <RunCounts />
          </Suspense>
        </PartBoundary>
      ) : location in OF_NO_RUN ? (
        <h1 className="text-bar font-semibold">{OF_NO_RUN[location]}</h1>
      ) : (
        <RunFacts />
      )}
      <div className="ml-auto flex shrink-0 items-center gap-4">
        <SearchButton />
        <ConnectionBadge />
        <IconButton
          icon={theme === "dark" ? "sun" : "moon"}
          label={theme === "dark" ? "Light theme" : "Dark theme"}
          keys="T"
          onClick={switchTheme}
          className="-mx-1.5"
        />
      </div>
    </header>
  );
}

function SearchButton() {
  return (
    <button
      type="button"
      aria-keyshortcuts="Control+K"
      onClick={() => openDialog("palette")}
      className="flex h-7 w-53 items-center gap-2 rounded-control bg-s2 px-2 text-t3 transition-colors hover:bg-s3 hover:text-t2 max-[1100px]:w-auto"
    >
      <Icon name="search" size={14} />
      <span className="max-[1100px]:sr-only">Search or command</span>
      <span className="ml-auto">
        <KeyCap keys="Ctrl K" />
      </span>
    </button>
  );
}

function RunFacts() {
  const state = useRunState();
  const { data: run } = useRunDetail(useRunId());
  const stale = useStale();
  return (
    <>
      <h1 className="sr-only">Live {run?.name}</h1>
      <RunPicker />
      {state !== null && (
        <>
          <StateChip state={state.state} />
          <div
            className={`flex min-w-0 items-center gap-x-4 overflow-hidden pl-1 max-[900px]:order-last max-[900px]:w-full max-[900px]:flex-wrap max-[900px]:pl-0 ${stale ? "stale" : ""}`}
          >
            <Facts state={state} />
          </div>
        </>
      )}
    </>
  );
}

function Facts({ state }: { state: StateOut }) {
  const loss = fromWire(state.loss);
  return (
    <>
      <Fact label="Step" value={formatCount(state.step)} of={state.total_steps} id="fact-step" />
      {state.epoch !== null && (
        <Fact
          label="Epoch"
          // At the end of the last epoch the count of finished ones is the total.
          value={formatCount(Math.min(state.epoch + 1, state.total_epochs ?? Infinity))}
          of={state.total_epochs}
        />
      )}
      {loss === null ? (
        <PartBoundary>
          <Suspense fallback={<Fact label="Loss" value={NONE} />}>
            <OtherLoss />
          </Suspense>
        </PartBoundary>
      ) : (
        <Fact label="Loss" value={formatValue(loss)} bad={!Number.isFinite(loss)} />
      )}
      {hasEnded(state) ? (
        <PartBoundary>
          <Suspense>
            <EndedFacts />
          </Suspense>
        </PartBoundary>
      ) : (
        <LiveFacts state={state} />
      )}
    </>
  );
}

function LiveFacts({ state }: { state: StateOut }) {
  return (
    <>
      {state.lr !== null && <Rate lr={fromWire(state.lr)} />}
      <Fact
        label="Speed"
        value={
          <span className="font-normal text-t2">
            {formatSpeed(toggleOf(state) === "pause" ? state.steps_per_s : null)}
          </span>
        }
      />
    </>
  );
}

/** The learning rate; a click opens the dialog that changes it, if the run supports that. */
function Rate({ lr }: { lr: number | null }) {
  const reason = useCommandReason("set_hparams");
  const fact = <Fact label="lr" value={formatRate(lr)} />;
  if (reason !== null) return fact;
  return (
    <button
      type="button"
      title="Set hyperparameters"
      onClick={() => openDialog("hyperparameters")}
      className="-mx-1 rounded-chip px-1 hover:bg-s2"
    >
      {fact}
    </button>
  );
}

/** The rest is on the Runs page. */
const MAX_LISTED = 12;

function RunPicker() {
  const runId = useRunId();
  const runs = useRuns() ?? [];
  const { data: detail } = useRunDetail(runId);
  const go = useGo();
  const name = runs.find((run) => run.id === runId)?.name ?? detail?.name ?? runId ?? "No run";
  const [location] = useLocation();
  const open = (id: string) => {
    if (location.startsWith("/runs/")) go(`/runs/${encodeURIComponent(id)}`);
    else go("/live", { run: id });
  };
  const items = runs.slice(0, MAX_LISTED).map((run) => ({
    label: <span className="font-mono">{run.name}</span>,
    note: run.live ? STATE_LOOKS[run.state].word : `${STATE_LOOKS[run.state].word} ${formatCount(run.step)}`,
    checked: run.id === runId,
    onSelect: () => open(run.id),
  }));
  return (
    <Menu
      align="start"
      heading={runs.length === 0 ? "No runs yet" : "Runs"}
      items={[
        ...items,
        "line",
        { label: "All runs", icon: "runs", keys: "G R", onSelect: () => go("/runs") },
      ]}
      trigger={
        <button
          type="button"
          className="-mx-1.5 flex h-7 min-w-0 items-center gap-1 rounded-control px-1.5 font-mono text-bar font-medium transition-colors hover:bg-s2"
        >
          <span className="truncate">{name}</span>
          <Icon name="updown" size={16} className="text-t3" />
        </button>
      }
    />
  );
}
