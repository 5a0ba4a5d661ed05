/** What a run did before it went back, for a page that was loaded later. */
import { api, runPath } from "@/api/client";
import { type FetchedSeries, fetchManySeries } from "@/api/scalars";
import { type AbandonedPart, MOST_ABANDONED, withPart } from "./series";
import { series, seriesChanged, useRun } from "./store";

/** A chart has a few hundred pixels; the part that was left needs no more. */
const ABANDONED_POINTS = 2_000;

/** Fetches the parts of these series that belong to timelines which the run has left. */
export async function fillAbandoned(
  runId: string,
  names: readonly string[],
  timeline: number,
  signal?: AbortSignal,
): Promise<void> {
  const lineage = await api.get<"/runs/{run_id}/lineage">(runPath(runId, "/lineage"), signal);
  const rewinds = lineage.timelines.filter((one) => one.from_step !== null && one.timeline <= timeline);
  const left = rewinds.slice(-MOST_ABANDONED).map(({ timeline: next, from_step: step }) => ({
    timeline: next - 1,
    start: (step as number) + 1,
  }));
  const fetched = await Promise.all(
    left.map((part) => fetchManySeries(runId, names, ABANDONED_POINTS, signal, part)),
  );
  // A run that went back meanwhile has cut its series, which is newer than this.
  if (useRun.getState().runId !== runId || series.timeline !== timeline) return;
  for (const name of names) {
    const parts = fetched.map((one) => partOf(one.get(name)));
    series.ensure(name).abandoned = parts.reduce<AbandonedPart[]>(
      (before, part) => (part === null ? before : withPart(before, part)),
      [],
    );
  }
  seriesChanged();
}

/** Of buckets the highest values: a part that was left is drawn pale, without detail. */
function partOf(one: FetchedSeries | undefined): AbandonedPart | null {
  return one === undefined || one.step.length === 0 ? null : { step: one.step, value: one.high };
}
