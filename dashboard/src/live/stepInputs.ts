/** The two numbers of the transport strip; the keyboard and the palette use them too. */
import { create } from "zustand";

interface StepInputs {
  /** Steps of "n steps" and Shift →. */
  n: number;
  /** Where "Run to" stops; null until the user or the strip names a step. */
  runTo: number | null;
}

export const useStepInputs = create<StepInputs>()(() => ({ n: 10, runTo: null }));
export const RUN_TO_FIELD = "run-to";
