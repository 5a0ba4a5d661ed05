/** Whether the step that is shown is one whose stop was looked into. */
import type { StateOut } from "@/api/types";
import { hasEnded } from "./commandAvailability";

/** The step of the diagnosis to show; null where there is none for the present step. */
export function diagnosedStep(state: StateOut): number | null {
  const { diagnosed_step: step, parked, breakpoint } = state;
  if (step == null) return null;
  // A step that raised an error is not counted.
  const isHere = step === state.step || (state.state === "failed" && step === state.step + 1);
  const isShown = parked ? state.state === "failed" || breakpoint?.title != null : hasEnded(state);
  return isHere && isShown ? step : null;
}
