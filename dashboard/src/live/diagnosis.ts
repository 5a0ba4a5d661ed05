/** Where the last stop came from, fetched once for all panels that show it. */
import { useQuery } from "@tanstack/react-query";
import { type ApiError, api, runPath } from "@/api/client";
import type { Diagnosis, StateOut, StopOut } from "@/api/types";
import { hasEnded } from "./commandAvailability";
import { useRunState } from "./hooks";
import { useRun } from "./store";

/** The step of the diagnosis to show; null where there is none for the present step. */
export function diagnosedStep(state: StateOut): number | null {
  const { diagnosed_step: step, parked, breakpoint } = state;
  if (step == null) return null;
  // A step that raised an error is not counted.
  const isHere = step === state.step || (state.state === "failed" && step === state.step + 1);
  const isShown = parked ? state.state === "failed" || breakpoint?.title != null : hasEnded(state);
  return isHere && isShown ? step : null;
}

/** The last stop by a breakpoint, a rule or an error; null while it is not known, or not shown. */
export function useStop(isShown = true): StopOut | null {
  const runId = useRun((run) => run.runId);
  const restarts = useRun((run) => run.restarts);
  // Not the step of a run that trains: it would ask at each state on the stream, several times a second.
  const moment = useRunState(
    ({ timeline, diagnosed_step: diagnosed, parked, step, state }) =>
      `${timeline} ${diagnosed} ${parked ? step : ""} ${state}`,
  );
  const { data } = useQuery<StopOut, ApiError>({
    queryKey: ["stop", runId, restarts, moment],
    queryFn: ({ signal }) =>
      api.get<"/runs/{run_id}/debug/diagnosis">(runPath(runId ?? "", "/debug/diagnosis"), signal),
    enabled: isShown && runId !== null && moment !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
    // What was shown stays while the next is fetched.
    placeholderData: (before) => before,
  });
  return data ?? null;
}

/** The diagnosis of the step that is shown now. */
export function useDiagnosis(): Diagnosis | null {
  const step = useRunState(diagnosedStep) ?? null;
  const diagnosis = useStop(step !== null)?.diagnosis ?? null;
  return diagnosis !== null && diagnosis.step === step ? diagnosis : null;
}
