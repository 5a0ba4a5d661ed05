/** One run of the list: what it is, what happened, what it wrote, and how to end or delete it. */

import { useQueryClient } from "@tanstack/react-query";
import { lazy, type ReactNode, useMemo } from "react";
import { Link, useParams } from "wouter";
import { runDetailKey, useRunDetail } from "@/api/runs";
import type { RunRow } from "@/api/types";
import { ConfigPanel } from "@/features/runDetail/ConfigPanel";
import { FactsPanel, SummaryPanel } from "@/features/runDetail/FactsPanel";
import { LabelsPanel } from "@/features/runDetail/LabelsPanel";
import { openDialog } from "@/lib/dialogs";
import { formatBytes, formatCount } from "@/lib/format";
import { VIEW_ONLY } from "@/lib/messages";
import { metricsOf } from "@/lib/metricNames";
import { useUrlChoice } from "@/lib/urlState";
import { toggleOf } from "@/live/commandAvailability";
import { useConnection, useRunState, useVerb } from "@/live/hooks";
import { useThrottledState } from "@/live/stepRequest";
import { Button, Icon, Panel, PanelSlot } from "@/ui";
import { PanelArea, Pill, Strip, TabRow } from "../Frame";
import { addressOf, useGo } from "../navigation";
import { useNow } from "../useNow";

const CurvesPanel = lazy(() => import("@/features/scalars/CurvesPanel"));
const EventsPanel = lazy(() => import("@/features/runDetail/EventsPanel"));
const FilesPanel = lazy(() => import("@/features/runDetail/FilesPanel"));
const MediaPanel = lazy(() => import("@/features/media/MediaPanel"));
const FiguresPanel = lazy(() => import("@/features/runDetail/FiguresPanel"));
const ConsolePanel = lazy(() => import("@/features/runDetail/ConsolePanel"));
const TimelinesPanel = lazy(() => import("@/features/runDetail/TimelinesPanel"));

const TABS = ["overview", "events", "media", "figures", "files", "console", "timelines"] as const;
type Tab = (typeof TABS)[number];
const NAMES: Record<Tab, string> = {
  overview: "Overview",
  events: "Events",
  media: "Media",
  figures: "Figures",
  files: "Files",
  console: "Console",
  timelines: "Timelines",
};

export function RunPage() {
  const { id = "" } = useParams<{ id: string }>();
  const runId = decodeURIComponent(id);
  const { data, error } = useRunDetail(runId, { polls: true });
  const [tab, setTab] = useUrlChoice("tab", TABS);
  const run = useFreshRun(data);
  if (run === undefined) return <NoRun error={error?.message ?? null} />;
  return (
    <>
      <Strip>
        <Controls run={run} />
      </Strip>
      <TabRow
        label="Views of the run"
        value={tab}
        tabs={TABS.map((value) => ({ value, label: NAMES[value] }))}
        onChange={setTab}
        pill={<WhyPill run={run} />}
      />
      <PanelArea tab={tab}>
        <PanelSlot title={NAMES[tab]}>
          {tab === "overview" ? (
            <Overview run={run} header={data?.header ?? {}} />
          ) : (
            <OneView tab={tab} run={run} />
          )}
        </PanelSlot>
      </PanelArea>
    </>
  );
}

/** What the stream of the run knows better than the last answer. */
function useFreshRun(run: RunRow | undefined): RunRow | undefined {
  const state = useRunState((live) => live.state);
  const step = useThrottledState((live) => live.step, 500);
  const timeline = useRunState((live) => live.timeline);
  return useMemo(() => {
    if (run === undefined || !run.live || state === undefined) return run;
    return { ...run, state, step: step ?? run.step, timeline: timeline ?? run.timeline };
  }, [run, state, step, timeline]);
}

function NoRun({ error }: { error: string | null }) {
  return (
    <PanelArea className="pt-2">
      <Panel
        title="Run"
        className="h-full"
        state={error === null ? { kind: "loading" } : { kind: "error", title: "Run not found", text: error }}
      />
    </PanelArea>
  );
}

/** Whether this page may write: the stream says so of a run that is followed. */
function useReadOnlyReason(): string | null {
  const { canControl, status } = useConnection();
  return !canControl || status === "view only" ? VIEW_ONLY : null;
}

function Controls({ run }: { run: RunRow }) {
  const go = useGo();
  const toggle = useRunState(toggleOf) ?? "resume";
  const pause = useVerb("pause");
  const resume = useVerb("resume");
  const verb = toggle === "pause" ? pause : resume;
  const stop = useVerb("stop");
  const readOnly = useReadOnlyReason();
  // A loop that does not answer can still be ended by signal.
  const noStop = run.state === "not responding" ? readOnly : stop.disabledReason;
  return (
    <>
      <Link
        href={addressOf("/runs", window.location.search)}
        className="flex h-7 items-center gap-1 rounded-control px-2 text-t2 hover:bg-s2 hover:text-text"
      >
        <Icon name="chevronRight" size={14} className="rotate-180" />
        All runs
      </Link>
      <Button look="filled" icon={run.live ? "live" : "monitor"} onClick={() => go("/live", { run: run.id })}>
        {run.live ? "Open live" : "Open panels"}
      </Button>
      {run.live && (
        <>
          <Button
            icon={toggle === "pause" ? "pause" : "play"}
            iconFilled={toggle === "resume"}
            busy={verb.busy ? (toggle === "pause" ? "Pausing…" : "Resuming…") : null}
            disabledReason={verb.disabledReason}
            onClick={() => void verb.run({})}
          >
            {toggle === "pause" ? "Pause" : "Resume"}
          </Button>
          <Button
            look="danger"
            icon="stop"
            iconFilled
            disabledReason={noStop}
            onClick={() => openDialog("stop", run.id)}
          >
            Stop
          </Button>
        </>
      )}
      <div className="ml-auto flex items-center gap-3">
        {run.bytes !== null && <span className="text-t3">{formatBytes(run.bytes)} on disk</span>}
        <Button
          look="danger"
          icon="remove"
          disabledReason={readOnly ?? (run.live ? "Stop it first" : null)}
          onClick={() => openDialog("delete-run", run.id)}
        >
          Delete
        </Button>
      </div>
    </>
  );
}

function WhyPill({ run }: { run: RunRow }) {
  if (run.live && run.reachable) return null;
  const bad = run.state === "failed" || run.state === "killed" || run.state === "not responding";
  if (run.live)
    return (
      <Pill
        tone="warn"
        glyph={<Icon name="unplugged" size={14} />}
        title="This run cannot be controlled from here."
        text={run.why}
      />
    );
  if (run.why === null) return null;
  return (
    <Pill
      tone={bad ? "bad" : "neutral"}
      glyph={<Icon name={bad ? "warning" : "clock"} size={14} />}
      title={`Ended at step ${formatCount(run.step)}.`}
      text={run.why}
    />
  );
}

function Overview({ run, header }: { run: RunRow; header: Record<string, unknown> }) {
  const now = useNow();
  const queries = useQueryClient();
  const readOnly = useReadOnlyReason();
  const curveRuns = useMemo(
    () => [
      {
        id: run.id,
        name: run.name,
        live: run.live,
        step: run.step,
        timeline: run.timeline,
        scalars: metricsOf(run),
        colourSlot: 0,
      },
    ],
    [run],
  );
  return (
    <div className="grid h-full min-h-[520px] grid-cols-[300px_minmax(0,1fr)_minmax(0,1.4fr)] gap-2 max-[1199px]:h-auto max-[1199px]:grid-cols-1">
      <div className="grid min-h-0 grid-rows-[minmax(0,1fr)_minmax(180px,auto)] gap-2">
        <FactsPanel run={run} header={header} now={now} />
        <LabelsPanel
          run={run}
          disabledReason={readOnly}
          onLabelled={(labelled) =>
            queries.setQueryData(runDetailKey(run.id), (old: RunRow | undefined) =>
              old === undefined ? old : { ...old, tags: labelled.tags, note: labelled.note },
            )
          }
        />
      </div>
      <div className="min-h-0 max-[1199px]:h-90">
        <ConfigPanel config={run.config} />
      </div>
      <div className="grid min-h-0 grid-rows-[minmax(0,1fr)_180px] gap-2 max-[1199px]:grid-rows-[360px_180px]">
        <CurvesPanel runs={curveRuns} emptyText="No metrics were logged." />
        <SummaryPanel summary={run.summary} />
      </div>
    </div>
  );
}

function OneView({ tab, run }: { tab: Exclude<Tab, "overview">; run: RunRow }): ReactNode {
  const now = useNow();
  // Commands and epochs come with steps and states; between them there is nothing new to read.
  const version = `${run.state} ${run.timeline} ${run.step}`;
  switch (tab) {
    case "events":
      return <EventsPanel key={run.id} runId={run.id} version={version} />;
    case "media":
      return <MediaPanel runId={run.id} live={run.live} />;
    case "figures":
      return <FiguresPanel runId={run.id} live={run.live} />;
    case "files":
      return <FilesPanel runId={run.id} live={run.live} now={now} />;
    case "console":
      return <ConsolePanel key={run.id} runId={run.id} live={run.live} />;
    default:
      return (
        <TimelinesPanel
          runId={run.id}
          timeline={run.timeline}
          step={run.step ?? 0}
          total={run.total_steps}
          link={(id) => (
            <Link
              href={addressOf(`/runs/${encodeURIComponent(id)}`, window.location.search)}
              className="font-mono text-accent hover:underline"
            >
              {id}
            </Link>
          )}
        />
      );
  }
}
