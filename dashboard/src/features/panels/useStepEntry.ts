/** Fetches step data: at once while the run is paused, at most once a second while it trains. */
import { useEffect, useRef, useState } from "react";
import { api, runPath } from "@/api/client";
import { getEntry } from "@/api/tensors";
import type { StateOut, StepDataOut } from "@/api/types";
import { type Capture, useCapture, useSubscription } from "@/live/captures";
import { useRunState } from "@/live/hooks";
import { useRun } from "@/live/store";
import { looksLikeTable } from "./dataShape";
import { firstTable } from "./panelKeys";

const ALL_KEYS = { kind: "step_data" } as const;

/** A running run needs a moment until it captures for this page. */
const RUNNING_STEPS = 50;
const SETTLED_MS = 2_000;

/** Runs every hook while there is no step data; answers whether steps were made since then and pushed nothing. */
export function usePushesNothing(): boolean {
  useKeyList();
  const from = useRef<number | null>(null);
  from.current ??= useRun.getState().state?.step ?? null;
  const [isSettled, setSettled] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(true), SETTLED_MS);
    return () => clearTimeout(timer);
  }, []);
  return useRunState((state) => hasPushedNothing(from.current, isSettled, state)) ?? false;
}

/** Whether steps were made since step `from`, with every hook running, and none of them pushed anything. */
export function hasPushedNothing(
  from: number | null,
  isSettled: boolean,
  { step, parked, step_data_keys }: Pick<StateOut, "step" | "parked" | "step_data_keys">,
): boolean {
  if (from === null || step_data_keys.length > 0) return false;
  return parked ? step > from : isSettled && step - from >= RUNNING_STEPS;
}

/** Shows the list of keys for as long as it is in view: then every hook runs. */
export const useKeyList = (): void => useSubscription(ALL_KEYS);

/** Names what is shown now: another step, or more that a command put beside the same one. Null: nothing. */
export function momentOf({
  timeline,
  step_data_step: step,
  step_data_additions: additions,
}: Pick<StateOut, "timeline" | "step_data_step" | "step_data_additions">): string | null {
  return step === null ? null : `${timeline} ${step} ${additions}`;
}

/** One entry; `full` asks for large tensors whole. What a hint shows comes whole by itself, as far as it can be shown. */
export function useStepEntry(key: string | null, full: boolean): Capture<StepDataOut> {
  const hinted = useRunState((state) => key !== null && key in state.step_data_panels) ?? false;
  return useCapture({
    spec: key === null ? null : { kind: "step_data", key },
    variant: full ? "full" : "",
    moment: momentOf,
    load: ({ runId, reader, signal }) => {
      const path = runPath(runId, `/debug/step_data/${encodeURIComponent(key ?? "")}`);
      if (hinted && !full) return getEntry(reader, path, signal);
      return full
        ? api.get<"/runs/{run_id}/debug/step_data/{key}">(`${path}?full=1`, signal)
        : reader.get<"/runs/{run_id}/debug/step_data/{key}">(path, signal);
    },
  });
}

/** The key to show when none is chosen: one hinted as a table, else the first that makes a table, else the first of all. */
export function useChosenKey(
  keys: readonly string[],
  chosen: string,
  entry: StepDataOut | null,
): string | null {
  const [known] = useState(() => new Map<string, boolean>());
  const table = useRunState((state) => firstTable(keys, state.step_data_panels)) ?? null;
  if (entry !== null) known.set(entry.key, looksLikeTable(entry.data));
  if (keys.includes(chosen)) return chosen;
  // Each key is looked at once, in turn, until one makes a table.
  return table ?? keys.find((key) => known.get(key) ?? true) ?? keys[0] ?? null;
}
