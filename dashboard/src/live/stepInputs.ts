/** The two numbers of the transport strip; the keyboard and the palette use them too. */
import { create } from "zustand";

interface TransportNumbers {
  /** Steps of "n steps" and Shift →. */
  n: number;
  /** Where "Run to" stops; null until the user or the strip names a step. */
  runTo: number | null;
}

export const useTransport = create<TransportNumbers>()(() => ({ n: 10, runTo: null }));
export const RUN_TO_FIELD = "run-to";
