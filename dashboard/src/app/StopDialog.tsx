import { runVerb } from "@/api/commands";
import { useRunDetail, useRunId, useRunState } from "@/api/hooks";
import { formatCount } from "@/lib/format";
import { ConfirmDialog } from "@/ui";

/** Asks before stopping: a stopped run cannot go on. */
export function StopDialog({ onClose }: { onClose: () => void }) {
  const state = useRunState();
  const { data: run } = useRunDetail(useRunId());
  return (
    <ConfirmDialog
      title={`Stop ${run?.name ?? "the run"}?`}
      text={`Training ends after step ${formatCount(state?.step)}. What was recorded so far stays.`}
      safe={state?.paused ? "Keep paused" : "Keep running"}
      verb="Stop run"
      onConfirm={() => void runVerb("stop", {})}
      onClose={onClose}
    />
  );
}
