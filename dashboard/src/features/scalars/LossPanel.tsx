/** Reads the series and the breakpoints; keeps what is a view in the address. */

import { useQuery } from "@tanstack/react-query";
import { useMemo, useRef } from "react";
import { useRunDetail } from "@/api/runs";
import { fetchCurves } from "@/api/scalars";
import { fittingWeight } from "@/charts/line/smooth";
import { DEFAULT_TREND, type Points, Trend, type TrendOptions } from "@/charts/line/trend";
import { useAction } from "@/lib/actions";
import { lossMetric, metricsOf } from "@/lib/metricNames";
import { useTheme } from "@/lib/theme";
import { useUrlChoice, useUrlState } from "@/lib/urlState";
import { hasEnded } from "@/live/commandAvailability";
import { useDiagnosis } from "@/live/diagnosis";
import { useBreakpoints, useCommands, useRunId, useRunState, useSeries } from "@/live/hooks";
import type { AbandonedPart } from "@/live/series";
import type { PanelState } from "@/ui";
import { type Band, bandOf, marksOf, rateMarks } from "./breakpointHits";
import { pairNames } from "./chartPairs";
import { RECENT, readView, viewText } from "./chartRange";
import { LossView, type Validation } from "./LossView";
import { useSmoothing } from "./SmoothingSlider";
import { useScalarNames } from "./useScalarNames";

interface LossPanelProps {
  expanded: boolean;
  onExpand: () => void;
  onFocusPoint: (point: { name: string; value: number } | null) => void;
  stale: string | null;
}

const NONE: readonly AbandonedPart[] = [];
const NOTHING: Points = { step: new Float64Array(0), value: new Float64Array(0) };

export default function LossPanel({ expanded, onExpand, onFocusPoint, stale }: LossPanelProps) {
  const [chosen, setName] = useUrlState("metric", "");
  const logged = useScalarNames();
  const name = chosen !== "" ? chosen : (lossMetric(logged) ?? "loss");
  const names = useMemo(() => [...new Set([name, ...logged])].sort(), [name, logged]);
  const [smoothing, setSmoothing] = useSmoothing(DEFAULT_TREND.smoothing);
  const [zoom, setZoom] = useUrlState("zoom", "");
  const [at] = useUrlState("at", "");
  const [scale, setScale] = useUrlChoice("scale", ["linear", "log"]);
  const { series, version, loading, error } = useSeries(name);
  const breakpoints = useBreakpoints();
  const pauses = useCommands();
  const running = !(useRunState((state) => state.parked) ?? false);
  const hitId = useRunState((state) => (state.parked ? state.breakpoint?.breakpoint : undefined));
  const hitStep = useRunState((state) => state.breakpoint?.step);
  const theme = useTheme();
  const changes = useDiagnosis()?.changes;
  const band = useMemo(() => bandOf(breakpoints), [breakpoints]);
  const marks = useMemo(() => {
    const now = hitId === undefined || hitStep === undefined ? null : { id: hitId, step: hitStep };
    return [...marksOf(breakpoints, pauses, now), ...rateMarks(changes ?? [])];
  }, [breakpoints, pauses, hitId, hitStep, changes]);
  const points = series?.view() ?? NOTHING;
  // A weight for long runs would average a short one over all of its values.
  const weight = fittingWeight(smoothing, points.step.length);
  const [rangeKind, setRangeKind] = useUrlChoice("range", ["robust", "full"]);
  const trend = useTrend(name, band, { smoothing: weight, robust: rangeKind === "robust" }, points);
  const ended = useRunState(hasEnded) ?? false;
  const validation = useValidation(ended ? name : null, logged);
  const view = useMemo(() => readView(zoom === "" ? null : zoom, ended), [zoom, ended]);
  useAction({
    id: "loss-scale",
    title: scale === "log" ? "Loss on a linear scale" : "Loss on a log scale",
    group: "Panels",
    run: () => setScale(scale === "log" ? "linear" : "log"),
  });
  useAction({
    id: "loss-steps",
    title: view.kind === "recent" ? "Loss of all steps" : `Loss of the last ${RECENT} steps`,
    group: "Panels",
    words: "zoom reset",
    run: () => setZoom(viewText({ kind: view.kind === "recent" ? "all" : "recent" }, ended) ?? ""),
  });
  return (
    <>
      {expanded && <LeaveLarge onLeave={onExpand} />}
      <LossView
        {...{
          name,
          points,
          trend,
          version,
          band,
          marks,
          view,
          at: at === "" ? null : Number(at),
          expanded,
          onExpand,
          onFocusPoint,
          stale,
          running,
          theme,
        }}
        names={names}
        smoothing={smoothing}
        onSmoothing={setSmoothing}
        onName={setName}
        exact={series?.exact ?? true}
        abandoned={series?.abandoned ?? NONE}
        validation={validation}
        robust={rangeKind === "robust"}
        onRobust={(on) => setRangeKind(on ? "robust" : "full")}
        onView={(next) => setZoom(viewText(next, ended) ?? "")}
        logScale={scale === "log"}
        onLogScale={(on) => setScale(on ? "log" : "linear")}
        state={stateOf(points.step.length, loading, error)}
      />
    </>
  );
}

/** The validation of the same metric of an ended run; also where it was measured at the ends of epochs only. */
function useValidation(name: string | null, logged: readonly string[]): Validation | null {
  const runId = useRunId() ?? "";
  const { data: run } = useRunDetail(runId);
  const names = run === undefined ? logged : [...new Set([...logged, ...metricsOf(run)])];
  const paired = name === null ? null : pairNames(names).find(({ train }) => train === name)?.validation;
  const { data } = useQuery({
    queryKey: ["validation", runId, paired],
    queryFn: ({ signal }) => fetchCurves([runId], paired ?? "", "step", signal),
    enabled: paired != null,
  });
  const curve = data?.get(runId);
  return useMemo(
    () => (paired == null || curve === undefined ? null : { name: paired, x: curve.x, y: curve.low }),
    [paired, curve],
  );
}

/** Esc leads back while the chart is large. */
function LeaveLarge({ onLeave }: { onLeave: () => void }) {
  useAction({ id: "loss-leave", title: "Restore chart size", group: "View", keys: "Esc", run: onLeave });
  return null;
}

/** The trend of a series; a new one when the series, its window or its smoothing changes. */
function useTrend(
  name: string,
  { window, fewest }: Band,
  { smoothing, robust }: Pick<TrendOptions, "smoothing" | "robust">,
  points: Points,
): Trend {
  const key = `${name} ${window} ${fewest} ${smoothing} ${robust}`;
  const kept = useRef<{ key: string; trend: Trend } | null>(null);
  if (kept.current?.key !== key)
    kept.current = { key, trend: new Trend({ smoothing, robust, window, fewest }) };
  const { trend } = kept.current;
  trend.follow(points);
  return trend;
}

function stateOf(count: number, loading: boolean, error: string | null): PanelState {
  if (count > 0) return { kind: "data" };
  if (error) return { kind: "error", title: "Could not load the curve", text: error };
  if (loading) return { kind: "data" };
  return { kind: "empty", title: "No values yet", text: "Log one with run.log(loss=loss)." };
}
