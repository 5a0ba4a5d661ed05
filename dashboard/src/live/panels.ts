/** The panel hints of this step's data, asked for again only when other keys are pushed. */

import { api, runPath } from "@/api/client";
import type { PanelOut, StepDataKeys } from "@/api/types";
import { useLatestRequest } from "./latestRequest";
import { useRunId, useRunState } from "./hooks";
import { useRun } from "./store";

/** The hint of the table whose rows are those of a tensor; null where nobody pushed one. */
export function useRowPanel(tensor: string | null): PanelOut | null {
  const runId = useRunId();
  const restarts = useRun((live) => live.restarts);
  const hinted = useRunState((state) => Object.keys(state.step_data_panels).join("\n")) ?? "";
  const key = runId === null || hinted === "" ? null : [runId, restarts, hinted].join("\n");
  const { data } = useLatestRequest<StepDataKeys>(
    key,
    (_, signal) => api.get<StepDataKeys>(runPath(runId ?? "", "/debug/step_data/keys"), signal),
    { intervalMs: 0 },
  );
  const panels = Object.values(data?.panels ?? {}).filter((panel) => panel !== null);
  const own = panels.filter(({ source }) => tensor !== null && source === tensor);
  return own.find(({ status }) => status !== null) ?? own[0] ?? null;
}
