/** The Step tab of a run that has ended: what was kept fills the same panels, each with its step. */
import { lazy, type ReactNode, useMemo } from "react";
import { useEvidence } from "@/api/evidence";
import { useRunDetail } from "@/api/runs";
import { batchFact, shownStop } from "@/features/kept/stopText";
import { formatCount } from "@/lib/format";
import { useUrlChoice, useUrlState } from "@/lib/urlState";
import { diagnosedStep } from "@/live/diagnosis";
import { useBreakpoints, useRunId, useRunState } from "@/live/hooks";
import { useKeptStop } from "@/live/keptStop";
import { PanelChoice, PanelMoment, PanelSlot, Segmented } from "@/ui";
import { PanelArea } from "../Frame";
import { useShownStep } from "./useShownStep";

const ChangesPanel = lazy(() => import("@/features/diagnosis/ChangesPanel"));
const StopsPanel = lazy(() => import("@/features/kept/StopsPanel"));
const KeptConsole = lazy(() => import("@/features/kept/KeptConsole"));
interface EndedTabProps {
  /** The panels that a live run has, too. They come from there, so that they are loaded once. */
  batch: ReactNode;
  loss: ReactNode;
  stepData: ReactNode;
  stale: string | null;
}

const END = "end";

export default function EndedTab({ batch, loss, stepData, stale }: EndedTabProps) {
  const runId = useRunId() ?? "";
  const state = useRunState((run) => run.state) ?? null;
  const { data: kept } = useEvidence(runId, state);
  const { data: run } = useRunDetail(runId);
  const breakpoints = useBreakpoints();
  const stopId = useKeptStop();
  const [, setStop] = useUrlState("stop", "");
  const [large, setLarge] = useUrlChoice("large", ["none", "loss", "console"]);

  const stop = shownStop(kept, stopId);
  const batchMoment = useMemo(
    () => (stop === null ? null : { title: stopId === null ? "Last batch" : "Batch", fact: batchFact(stop) }),
    [stop, stopId],
  );
  const changes = useRunState((run) => diagnosedStep(run) !== null) ?? false;
  const [below, setBelow] = useUrlChoice("below", ["console", "changes"]);
  const showStep = useShownStep();
  const choice = changes && stopId === null && large === "none" && (
    <Segmented
      label="Shown here"
      value={below}
      choices={[
        { value: "console", label: "Console" },
        { value: "changes", label: "Changes" },
      ]}
      onChange={setBelow}
    />
  );
  const printed = (
    <PanelSlot title="Console">
      <KeptConsole
        runId={runId}
        run={run}
        large={large === "console"}
        onLarge={() => setLarge(large === "console" ? "none" : "console")}
      />
    </PanelSlot>
  );
  if (large !== "none") return <PanelArea tab="step">{large === "loss" ? loss : printed}</PanelArea>;
  return (
    <PanelArea tab="step">
      <div className="grid h-full min-h-[560px] grid-cols-[632px_minmax(0,1fr)] gap-2 max-[1199px]:h-auto max-[1199px]:grid-cols-1">
        <div className="grid min-h-0 grid-rows-[256px_minmax(0,1fr)] gap-2 max-[1199px]:grid-rows-[320px_312px]">
          <PanelMoment value={batchMoment}>{batch}</PanelMoment>
          <div className="grid min-h-0 grid-cols-[248px_minmax(0,1fr)] gap-2 max-[719px]:grid-cols-1 max-[719px]:grid-rows-2">
            <PanelSlot title="Breakpoints">
              <StopsPanel
                breakpoints={breakpoints}
                stops={kept?.stops ?? []}
                shown={stopId}
                onShow={(id) => setStop(id ?? "")}
                stale={stale}
              />
            </PanelSlot>
            <PanelChoice value={choice}>
              {choice && below === "changes" ? (
                <PanelSlot title="What changed">
                  <ChangesPanel onStep={showStep} stale={stale} />
                </PanelSlot>
              ) : (
                printed
              )}
            </PanelChoice>
          </div>
        </div>
        <div className="grid min-h-0 grid-rows-[226px_minmax(0,1fr)] gap-2 max-[1199px]:grid-rows-[226px_342px]">
          {loss}
          <Layers>{stepData}</Layers>
        </div>
      </div>
    </PanelArea>
  );
}

/** The step data that was kept, with a choice of the stops that have it. */
function Layers({ children }: { children: ReactNode }) {
  const runId = useRunId() ?? "";
  const state = useRunState((run) => run.state) ?? null;
  const { data: kept } = useEvidence(runId, state);
  const stopId = useKeptStop();
  const [, setStop] = useUrlState("stop", "");
  const stop = shownStop(kept, stopId);
  const moment = useMemo(() => {
    if (stop === null) return null;
    // Beside the end: the stop that is shown, else the newest one by a breakpoint.
    const stops = (kept?.stops ?? []).filter((one) => one.kept && one.step_data.length > 0);
    const other =
      stops.find(({ id }) => id === stopId) ?? stops.findLast(({ cause }) => cause === "breakpoint");
    const choices = [
      { value: END, label: "End" },
      ...(other ? [{ value: other.id, label: formatCount(other.step) }] : []),
    ];
    const tools =
      kept?.end != null && other ? (
        <Segmented
          label="Choose a stop"
          value={stopId ?? END}
          choices={choices}
          onChange={(value) => setStop(value === END ? "" : value)}
        />
      ) : null;
    return { fact: `of step ${formatCount(stop.step)}`, tools };
  }, [stop, kept, stopId, setStop]);
  return <PanelMoment value={moment}>{children}</PanelMoment>;
}
