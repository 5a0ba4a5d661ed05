/** Fills the series of the followed run from its record; the stream continues them. */
import { fetchManySeries, fetchSeries } from "@/api/scalars";
import { MAX_POINTS } from "./series";
import { series, seriesChanged, useRun } from "./store";

/** Fetches the whole of one series and puts it in front of what the stream has brought. */
export async function fillSeries(runId: string, name: string, signal?: AbortSignal): Promise<void> {
  const fetched = await fetchSeries(runId, name, MAX_POINTS, signal);
  if (useRun.getState().runId !== runId) return;
  series.fill(name, fetched);
  seriesChanged();
  await fillLeft(runId, [name], fetched.timeline, signal);
}

/** The same for several series, which cost one request and are drawn at once. */
export async function fillManySeries(
  runId: string,
  names: readonly string[],
  points: number,
  signal?: AbortSignal,
): Promise<void> {
  const fetched = await fetchManySeries(runId, names, points, signal);
  if (useRun.getState().runId !== runId) return;
  for (const [name, one] of fetched) series.fill(name, one);
  seriesChanged();
  const timeline = Math.max(0, ...[...fetched.values()].map((one) => one.timeline));
  await fillLeft(runId, names, timeline, signal);
}

/** What the run did before it went back; a run that never did costs nothing. */
async function fillLeft(runId: string, names: readonly string[], timeline: number, signal?: AbortSignal) {
  if (timeline === 0) return;
  const { fillAbandoned } = await import("./fillAbandoned");
  await fillAbandoned(runId, names, timeline, signal);
}
