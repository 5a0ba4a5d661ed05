/** Fills series from the server's facts; the stream goes on behind them. */

import { api, runPath } from "@/api/client";
import { readSafetensors, type SafeTensors, toFloat64 } from "@/api/safetensors";
import { MAX_POINTS } from "./series";
import { series, seriesChanged, useRun } from "./store";

function column(file: SafeTensors, name: string): Float64Array {
  const tensor = file.tensors.get(name);
  return tensor === undefined ? new Float64Array(0) : toFloat64(tensor.data);
}

/** `exact` may be said once for the file or per series. */
function isExact(metadata: Record<string, string>, name: string): boolean {
  return (metadata[`${name}.exact`] ?? metadata.exact ?? "true").toLowerCase() === "true";
}

/** Fetches the whole of one series and puts it in front of what the stream has brought. */
export async function fillSeries(runId: string, name: string, signal?: AbortSignal): Promise<void> {
  const query = new URLSearchParams({ names: name, points: String(MAX_POINTS), format: "safetensors" });
  const file = readSafetensors(await api.bytes(runPath(runId, `/scalars?${query}`), signal));
  if (useRun.getState().runId !== runId) return;
  series.fill(name, {
    step: column(file, `${name}.step`),
    low: column(file, `${name}.low`),
    high: column(file, `${name}.high`),
    exact: isExact(file.metadata, name),
    timeline: Number(file.metadata.timeline ?? 0),
  });
  seriesChanged();
}
