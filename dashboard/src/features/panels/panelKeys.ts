/** Names of the step data: all of them, and those of the Panels tab. Part of the first load, so it is kept small. */
import { useMemo } from "react";
import type { StateOut } from "@/api/types";
import { useUrlState } from "@/lib/urlState";
import { useRunState } from "@/live/hooks";

export function useStepKeys(): string[] {
  const joined = useRunState((state) => state.step_data_keys.join("\n")) ?? "";
  return useMemo(() => (joined === "" ? [] : joined.split("\n")), [joined]);
}

/** The table of layers, which every run has. */
const LAYERS = "layers";

/** What the Panels tab shows: all but the layers, where the Step tab shows them already. */
export function furtherKeys(
  keys: readonly string[],
  chosen: string,
  panels: StateOut["step_data_panels"],
): string[] {
  const onStepTab = keys.includes(chosen) ? chosen : firstTable(keys, panels);
  return keys.filter((key) => key !== LAYERS || key !== onStepTab);
}

/** The entries of the Panels tab; `chosen` is the one that was chosen on the Step tab. */
export function usePanelKeys(): string[] {
  const keys = useStepKeys();
  const [chosen] = useUrlState("key", "");
  const joined = useRunState((state) => furtherKeys(keys, chosen, state.step_data_panels).join("\n")) ?? "";
  return useMemo(() => (joined === "" ? [] : joined.split("\n")), [joined]);
}

/** The first key that a hook pushed as a table. */
export function firstTable(keys: readonly string[], panels: StateOut["step_data_panels"]): string | null {
  return keys.find((key) => panels[key] === "table") ?? null;
}
