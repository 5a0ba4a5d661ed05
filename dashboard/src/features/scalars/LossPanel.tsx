/** Reads the series and the breakpoints; keeps what is a view in the address. */
import { useMemo, useRef } from "react";
import { DEFAULT_TREND, type Points, Trend } from "@/charts/line/trend";
import { useAction } from "@/lib/actions";
import { lossMetric } from "@/lib/metricNames";
import { useTheme } from "@/lib/theme";
import { useUrlChoice, useUrlState } from "@/lib/urlState";
import { useBreakpoints, useCommands, useRunState, useSeries } from "@/live/hooks";
import type { PanelState } from "@/ui";
import { type Band, bandOf, marksOf } from "./breakpointHits";
import { RECENT, readView, viewText } from "./chartRange";
import { LossView } from "./LossView";
import { useSmoothing } from "./SmoothingSlider";
import { useScalarNames } from "./useScalarNames";

interface LossPanelProps {
  expanded: boolean;
  onExpand: () => void;
  onFocusPoint: (point: { name: string; value: number } | null) => void;
  stale: string | null;
}

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
  const band = useMemo(() => bandOf(breakpoints), [breakpoints]);
  const marks = useMemo(() => {
    const now = hitId === undefined || hitStep === undefined ? null : { id: hitId, step: hitStep };
    return marksOf(breakpoints, pauses, now);
  }, [breakpoints, pauses, hitId, hitStep]);
  const points = series?.view() ?? NOTHING;
  const trend = useTrend(name, band, smoothing, points);
  const view = useMemo(() => readView(zoom === "" ? null : zoom), [zoom]);
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
    run: () => setZoom(view.kind === "recent" ? "all" : ""),
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
        onView={(next) => setZoom(viewText(next) ?? "")}
        logScale={scale === "log"}
        onLogScale={(on) => setScale(on ? "log" : "linear")}
        state={stateOf(points.step.length, loading, error)}
      />
    </>
  );
}

/** Esc leads back while the chart is large. */
function LeaveLarge({ onLeave }: { onLeave: () => void }) {
  useAction({ id: "loss-leave", title: "Restore chart size", group: "View", keys: "Esc", run: onLeave });
  return null;
}

/** The trend of a series; a new one when the series, its window or its smoothing changes. */
function useTrend(name: string, { window, fewest }: Band, smoothing: number, points: Points): Trend {
  const key = `${name} ${window} ${fewest} ${smoothing}`;
  const kept = useRef<{ key: string; trend: Trend } | null>(null);
  if (kept.current?.key !== key) kept.current = { key, trend: new Trend({ smoothing, window, fewest }) };
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
