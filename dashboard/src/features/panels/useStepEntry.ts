/** Fetches step data: at once while the run is paused, at most once a second while it trains. */
import { useMemo, useState } from "react";
import { api, runPath } from "@/api/client";
import { getEntry } from "@/api/tensors";
import type { StateOut, StepDataOut } from "@/api/types";
import { type Latest, useLatest } from "@/live/captures";
import { useMoment, useRunId, useRunState } from "@/live/hooks";
import { useRun } from "@/live/store";
import { looksLikeTable } from "./dataShape";

export function useStepKeys(): string[] {
  const joined = useRunState((state) => state.step_data_keys.join("\n")) ?? "";
  return useMemo(() => (joined === "" ? [] : joined.split("\n")), [joined]);
}

/** A training run is captured at most ten times a second, so a few steps may not be captured. */
const STEPS_UNSEEN = 50;

/** Whether steps were taken while this page watched and none of them pushed anything. */
export function pushesNothing(
  watchedFrom: number | null,
  { step, parked, step_data_keys }: Pick<StateOut, "step" | "parked" | "step_data_keys">,
): boolean {
  if (watchedFrom === null || step_data_keys.length > 0) return false;
  return step - watchedFrom >= (parked ? 1 : STEPS_UNSEEN);
}

/** Names what is shown now: another step, or more that a command put beside the same one. Null: nothing. */
export function momentOf({
  timeline,
  step_data_step: step,
  step_data_additions: additions,
}: Pick<StateOut, "timeline" | "step_data_step" | "step_data_additions">): string | null {
  return step === null ? null : `${timeline} ${step} ${additions}`;
}

/** One entry; `full` asks for large tensors whole. What a hint shows comes whole by itself, as far as it can be shown. */
export function useStepEntry(key: string | null, full: boolean): Latest<StepDataOut> {
  const runId = useRunId();
  const generation = useRun((live) => live.generation);
  const { moment, intervalMs, ask } = useMoment(momentOf);
  const hinted = useRunState((state) => key !== null && key in state.step_data_panels) ?? false;
  const wanted =
    runId === null || key === null || moment === null
      ? null
      : JSON.stringify([runId, generation, moment, key, full]);
  const load = (_: string, signal: AbortSignal) => {
    const path = runPath(runId ?? "", `/debug/step_data/${encodeURIComponent(key ?? "")}`);
    if (hinted && !full) return getEntry(ask, path, signal);
    return full ? api.get<StepDataOut>(`${path}?full=1`, signal) : ask.get<StepDataOut>(path, signal);
  };
  return useLatest(wanted, load, { intervalMs });
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

/** The first key that a hook pushed as a table. */
function firstTable(keys: readonly string[], panels: StateOut["step_data_panels"]): string | null {
  return keys.find((key) => panels[key] === "table") ?? null;
}
