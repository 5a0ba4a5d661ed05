import { useEffect } from "react";
import { useRunDetail, useRunId, useRunState } from "@/api/hooks";
import type { RunState } from "@/api/types";
import { formatCount } from "@/lib/format";
import { useThrottled } from "@/lib/useThrottled";

const GLYPHS: Partial<Record<RunState, string>> = {
  paused: "‖ ",
  stopped: "■ ",
  finished: "✓ ",
  failed: "✕ ",
  killed: "⊘ ",
  lost: "◌ ",
};

/** The title of the tab: "‖ 12,480 bcl-novelty-k8". */
export function titleOf(
  state: RunState | undefined,
  step: number | undefined,
  name: string | undefined,
): string {
  if (state === undefined || name === undefined) return "midstep";
  return `${GLYPHS[state] ?? ""}${formatCount(step)} ${name}`;
}

export function useDocumentTitle(): void {
  const state = useRunState((run) => run.state);
  const step = useRunState((run) => run.step);
  const { data: run } = useRunDetail(useRunId());
  const title = useThrottled(titleOf(state, step, run?.name), 500);
  useEffect(() => {
    document.title = title;
  }, [title]);
}
