/** Joins the strip of an ended run to its checkpoints. */
import { useEvidence } from "@/api/evidence";
import { formatBytes, formatCount } from "@/lib/format";
import { useRunId, useRunState, useStale } from "@/live/hooks";
import EndedStrip from "./EndedStrip";

const NONE = [] as const;

export default function EndedTransport() {
  const state = useRunState();
  const stale = useStale();
  const { data } = useEvidence(useRunId(), state?.state ?? null);
  const checkpoints = data?.checkpoints ?? NONE;
  if (state === null) return null;
  const best = checkpoints.find((one) => one.best);
  const size = checkpoints.reduce((sum, { bytes }) => sum + bytes, 0);
  const fact = [
    `${formatCount(checkpoints.length)} kept`,
    formatBytes(size),
    ...(best ? [`best ${formatCount(best.step)}`] : []),
  ].join(" · ");
  return <EndedStrip {...{ state, checkpoints, fact, stale }} />;
}
