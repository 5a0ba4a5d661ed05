/** In the top bar of a run that logs no `loss`: the metric that its loss chart shows, such as `loss_d`. */
import { useRunDetail } from "@/api/runs";
import { fromWire } from "@/api/types";
import { useScalarNames } from "@/features/scalars/useScalarNames";
import { formatValue } from "@/lib/format";
import { lossMetric } from "@/lib/metricNames";
import { useRunId } from "@/live/hooks";
import { series, useRun } from "@/live/store";
import { Fact } from "./Fact";

export default function OtherLoss() {
  const { data: run } = useRunDetail(useRunId());
  const name = lossMetric(useScalarNames()) ?? "loss";
  // The store of the series is no state; the version says that it has another last value.
  useRun((live) => live.seriesVersion);
  const value = series.get(name)?.view().value.at(-1) ?? fromWire(run?.summary[name]);
  const isBad = value !== null && !Number.isFinite(value);
  return <Fact label={name === "loss" ? "Loss" : name} value={formatValue(value)} bad={isBad} />;
}
