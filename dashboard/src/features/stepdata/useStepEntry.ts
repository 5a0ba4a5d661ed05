/** Fetches step data: when the run stands at once, while it goes on at most twice a second. */
import { useMemo, useState } from "react";
import { api, runPath } from "@/api/client";
import { useRunId, useRunState } from "@/api/hooks";
import type { StateOut, StepDataOut } from "@/api/types";
import { useLive } from "@/lib/store";
import { type Latest, useLatest } from "@/lib/useLatest";
import { looksLikeTable } from "./shape";

const RUNNING_MS = 500;

export function useStepKeys(): string[] {
  const joined = useRunState((state) => state.step_data_keys.join("\n")) ?? "";
  return useMemo(() => (joined === "" ? [] : joined.split("\n")), [joined]);
}

/** A run that goes on is looked at ten times a second only, so a few steps may pass unseen. */
const STEPS_UNSEEN = 50;

/** Whether steps were taken while this page watched and none of them pushed anything. */
export function pushesNothing(
  watchedFrom: number | null,
  { step, parked, step_data_keys }: Pick<StateOut, "step" | "parked" | "step_data_keys">,
): boolean {
  if (watchedFrom === null || step_data_keys.length > 0) return false;
  return step - watchedFrom >= (parked ? 1 : STEPS_UNSEEN);
}

/** One entry; `full` asks for large tensors whole. */
export function useStepEntry(key: string | null, full: boolean): Latest<StepDataOut> {
  const runId = useRunId();
  const generation = useLive((live) => live.generation);
  const step = useRunState((state) => state.step_data_step) ?? null;
  const parked = useRunState((state) => state.parked) ?? false;
  const wanted =
    runId === null || key === null || step === null
      ? null
      : JSON.stringify([runId, generation, step, key, full]);
  const load = (_: string, signal: AbortSignal) => {
    const rest = `/debug/step_data/${encodeURIComponent(key ?? "")}${full ? "?full=1" : ""}`;
    return api.get<StepDataOut>(runPath(runId ?? "", rest), signal);
  };
  return useLatest(wanted, load, { leastMs: parked ? 0 : RUNNING_MS });
}

/** The key to show when none is chosen: the first that makes a table, else the first of all. */
export function useChosenKey(
  keys: readonly string[],
  chosen: string,
  entry: StepDataOut | null,
): string | null {
  const [known] = useState(() => new Map<string, boolean>());
  if (entry !== null) known.set(entry.key, looksLikeTable(entry.data));
  if (keys.includes(chosen)) return chosen;
  // Each key is looked at once, in turn, until one makes a table.
  return keys.find((key) => known.get(key) ?? true) ?? keys[0] ?? null;
}
