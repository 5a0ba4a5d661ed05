import { useEffect } from "react";
import { useLocation } from "wouter";
import type { RunState } from "@/api/types";
import { formatCount } from "@/lib/format";
import { useMoment, useRunDetail, useRunId, useRunState } from "@/live/hooks";
import { PAGES, PAGES_WITHOUT_RUN } from "./routes";

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
  const [path] = useLocation();
  const state = useRunState((run) => run.state);
  const { moment } = useMoment((run) => run.step);
  const { data: run } = useRunDetail(useRunId());
  const ofRun = titleOf(state, moment === null ? undefined : Number(moment), run?.name);
  const page = PAGES_WITHOUT_RUN.has(path) ? PAGES.find((one) => one.path === path) : undefined;
  const title = page === undefined ? ofRun : `${page.name} · midstep`;
  useEffect(() => {
    document.title = title;
  }, [title]);
}
