import { lazy, Suspense, useCallback, useRef, useState } from "react";
import { ApiError } from "@/api/client";
import { useRunTable } from "@/api/runList";
import { useRunRow } from "@/api/runs";
import { BatchPanel } from "@/features/batch/BatchPanel";
import { BreakpointsPanel } from "@/features/breakpoints/BreakpointsPanel";
import type { Draft } from "@/features/breakpoints/conditions";
import { CommandsPanel } from "@/features/commands/CommandsPanel";
import { usePanelKeys } from "@/features/panels/panelKeys";
import { pairNames } from "@/features/scalars/chartPairs";
import { useScalarNames } from "@/features/scalars/useScalarNames";
import { Transport } from "@/features/transport/Transport";
import { showToast } from "@/lib/toasts";
import { useUrlChoice } from "@/lib/urlState";
import { addBreakpoint } from "@/live/breakpoints";
import { hasEnded } from "@/live/commandAvailability";
import { diagnosedStep } from "@/live/diagnosis";
import { useNoCommandsReason, useRunId, useRunState, useStale } from "@/live/hooks";
import { useKeptStop } from "@/live/keptStop";
import { useRun } from "@/live/store";
import { LivePanelSlot, Panel, PanelSlot } from "@/ui";
import { PanelArea, Strip, TabRow } from "../Frame";
import { LivePill } from "./LivePill";

const StopPanels = lazy(() => import("./StopPanels"));
const StopLayers = lazy(() => import("./StopLayers"));
const SampleCause = lazy(() => import("@/features/diagnosis/SampleCause"));
const LossPanel = lazy(() => import("@/features/scalars/LossPanel"));
const ChartsTab = lazy(() => import("@/features/scalars/ChartsTab"));
const EndedTab = lazy(() => import("./EndedTab"));
const FeaturesTab = lazy(() => import("./FeaturesTab"));
const StepDataPanel = lazy(async () => ({
  default: (await import("@/features/panels/StepDataPanel")).StepDataPanel,
}));
const PanelsGrid = lazy(() => import("@/features/panels/PanelsGrid"));

const MediaPanel = lazy(() => import("@/features/media/MediaPanel"));

const TABS = ["step", "charts", "media", "features", "panels"] as const;
const NONE: ReadonlySet<number> = new Set();

/** The run as it goes: control, batch, loss, breakpoints, commands, step data. */
export function LivePage() {
  const runId = useRunId();
  const isPending = useRunTable((table) => !table.loaded && table.error === null);
  if (runId === null) return isPending ? <main className="flex-1" /> : <NoRun />;
  // Another run starts with nothing selected.
  return <LiveRun key={runId} />;
}

function LiveRun() {
  const [tab, setTab] = useUrlChoice("tab", TABS);
  const keys = usePanelKeys().length;
  const charts = pairNames(useScalarNames()).length;
  const stale = useStaleText();
  const [pointedOut, setPointedOut] = useState(NONE);
  return (
    <>
      <Strip>
        <Transport />
      </Strip>
      <TabRow
        label="Views of the run"
        value={tab}
        tabs={[
          { value: "step", label: "Step" },
          { value: "charts", label: "Charts", count: charts },
          { value: "media", label: "Media" },
          { value: "features", label: "Features" },
          { value: "panels", label: "Panels", count: keys },
        ]}
        onChange={(next) => {
          setTab(next);
          setPointedOut(NONE);
        }}
        pill={
          <LivePill
            onShowSamples={(ids) => {
              setTab("step");
              setPointedOut(new Set(ids));
            }}
          />
        }
      />
      {tab === "step" && <StepTab pointedOut={pointedOut} stale={stale} onPanels={() => setTab("panels")} />}
      {tab === "features" && (
        <Suspense fallback={<PanelArea tab="features">{null}</PanelArea>}>
          <FeaturesTab stale={stale} />
        </Suspense>
      )}
      {tab === "charts" && (
        <PanelArea tab="charts">
          <PanelSlot title="Charts">
            <ChartsTab stale={stale} />
          </PanelSlot>
        </PanelArea>
      )}
      {tab === "media" && (
        <PanelArea tab="media">
          <PanelSlot title="Media">
            <MediaOfRun stale={stale} />
          </PanelSlot>
        </PanelArea>
      )}
      {tab === "panels" && (
        <PanelArea tab="panels">
          <Suspense fallback={null}>
            <PanelsGrid stale={stale} />
          </Suspense>
        </PanelArea>
      )}
    </>
  );
}

function MediaOfRun({ stale }: { stale: string | null }) {
  const runId = useRunId() ?? "";
  const live = useRunRow(runId)?.live ?? true;
  return <MediaPanel runId={runId} live={live} stale={stale} />;
}

interface StepTabProps {
  pointedOut: ReadonlySet<number>;
  stale: string | null;
  onPanels: () => void;
}

interface Focus {
  /** Id of the focused sample. */
  sample: number | null;
  /** Point under the chart's cursor. */
  point: { name: string; value: number } | null;
}

const COLUMN = "grid min-h-0 gap-2";

function StepTab({ pointedOut, stale, onPanels }: StepTabProps) {
  // What has focus matters only when a breakpoint is made of it, so it redraws nothing.
  const focus = useRef<Focus>({ sample: null, point: null });
  const [large, setLarge] = useUrlChoice("large", ["none", "loss"]);
  const ended = useRunState(hasEnded) ?? false;
  const lossLarge = large === "loss";
  const focusSample = useCallback((sample: number | null) => {
    focus.current = { ...focus.current, sample };
  }, []);
  const focusPoint = useCallback((point: Focus["point"]) => {
    focus.current = { ...focus.current, point };
  }, []);
  const culprits = useCulprits();
  const noCommands = useNoCommandsReason();
  const stop = useKeptStop();
  const isDiagnosed = (useRunState((state) => diagnosedStep(state) !== null) ?? false) && stop === null;
  const loss = (
    <PanelSlot title="Loss">
      <LossPanel
        expanded={lossLarge}
        onExpand={() => setLarge(lossLarge ? "none" : "loss")}
        onFocusPoint={focusPoint}
        stale={stale}
      />
    </PanelSlot>
  );
  const batch = (
    <LivePanelSlot title="Batch">
      <BatchPanel
        pointedOut={pointedOut}
        onFocusSample={focusSample}
        onBreak={(id) => void breakOn(id)}
        onInfluence={onPanels}
        culprits={culprits}
        detail={(sample, onOpen) =>
          culprits.includes(sample.batchIndex) && (
            <Suspense fallback={null}>
              <SampleCause
                {...{ sample, onOpen }}
                onBreak={(id) => void breakOn(id)}
                breakReason={noCommands}
              />
            </Suspense>
          )
        }
        stale={stale}
      />
    </LivePanelSlot>
  );
  const stepData = (
    <LivePanelSlot title="Step data">
      {isDiagnosed ? (
        <StopLayers stale={stale} onPanels={onPanels} />
      ) : (
        <StepDataPanel stale={stale} onPanels={onPanels} />
      )}
    </LivePanelSlot>
  );
  if (lossLarge) return <PanelArea tab="step">{loss}</PanelArea>;
  if (ended) {
    return (
      <Suspense fallback={<PanelArea tab="step">{null}</PanelArea>}>
        <EndedTab {...{ batch, loss, stepData, stale }} />
      </Suspense>
    );
  }
  return (
    <PanelArea tab="step">
      <div className="grid h-full min-h-[560px] grid-cols-[632px_minmax(0,1fr)] gap-2 max-[1199px]:h-auto max-[1199px]:grid-cols-1">
        <div
          className={`${COLUMN} ${isDiagnosed ? "grid-rows-[minmax(0,1fr)_190px] max-[1199px]:grid-rows-[436px_190px]" : "grid-rows-[minmax(0,1fr)_132px] max-[1199px]:grid-rows-[436px_132px] max-[719px]:grid-rows-[436px_272px]"}`}
        >
          {batch}
          {isDiagnosed ? (
            <PanelSlot title="What changed">
              <StopPanels propose={() => proposalFrom(focus.current)} stale={stale} />
            </PanelSlot>
          ) : (
            <div
              className={`${COLUMN} grid-cols-[minmax(0,5fr)_minmax(0,6fr)] max-[719px]:grid-cols-1 max-[719px]:grid-rows-2`}
            >
              <PanelSlot title="Breakpoints">
                <BreakpointsPanel propose={() => proposalFrom(focus.current)} stale={stale} />
              </PanelSlot>
              <PanelSlot title="Commands">
                <CommandsPanel stale={stale} />
              </PanelSlot>
            </div>
          )}
        </div>
        <div className={`${COLUMN} grid-rows-[226px_minmax(0,1fr)] max-[1199px]:grid-rows-[226px_342px]`}>
          {loss}
          {stepData}
        </div>
      </div>
    </PanelArea>
  );
}

const NOBODY: readonly number[] = [];

/** Positions of the samples that the stop came from. */
function useCulprits(): readonly number[] {
  return (
    useRunState((state) => (diagnosedStep(state) === null ? undefined : state.breakpoint?.positions)) ??
    NOBODY
  );
}

async function breakOn(sampleId: number): Promise<void> {
  try {
    await addBreakpoint({ kind: "sample", ids: [sampleId] });
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    showToast({ kind: "refused", title: "Breakpoint refused.", text: problem.message });
  }
}

/** What a new breakpoint starts with: the point under the chart's cursor, else the focused sample. */
function proposalFrom({ sample, point }: Focus): Partial<Draft> {
  if (point !== null)
    return { kind: "metric", name: point.name, op: ">", value: String(Number(point.value.toPrecision(4))) };
  return sample === null ? {} : { kind: "sample", ids: String(sample) };
}

/** "12 s old" while nothing new comes. */
function useStaleText(): string | null {
  const stale = useStale();
  const ageS = useRun(({ connection }) => connection.ageS);
  return stale ? `${ageS} s old` : null;
}

/** Nothing runs that this server can reach. */
function NoRun() {
  return (
    <PanelArea className="pt-2">
      <Panel
        title="Live"
        className="h-full"
        state={{
          kind: "empty",
          title: "No run is live",
          text: (
            <>
              Start the demo with <code className="font-mono">midstep demo</code>, or attach your own loop:{" "}
              <code className="font-mono">midstep.attach(model, optimizer, loader, serve=True)</code>. Runs
              that have ended are on the Runs page.
            </>
          ),
        }}
      />
    </PanelArea>
  );
}
