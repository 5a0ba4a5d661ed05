import { useEffect, useState } from "react";
import { followRun } from "@/api/follow";
import { useRuns } from "@/api/hooks";
import type { RunOut } from "@/api/types";
import { useUrlState } from "@/lib/urlState";

/** The run that the address names; else the one already followed, the newest live one, the newest. */
export function chooseRun(
  runs: readonly RunOut[] | undefined,
  named: string,
  kept: string | null,
): string | null {
  if (runs === undefined) return named || kept;
  const has = (id: string | null) => runs.some((run) => run.id === id);
  if (named) return has(named) ? named : null;
  if (has(kept)) return kept;
  return (runs.find((run) => run.live) ?? runs[0])?.id ?? null;
}

/** Follows the chosen run; it does not change by itself when another one starts. */
export function useFollowedRun(): void {
  const [named] = useUrlState("run", "");
  const { data } = useRuns();
  const [kept, setKept] = useState<string | null>(null);
  const runId = chooseRun(data?.runs, named, kept);
  useEffect(() => {
    setKept(runId);
    return runId === null ? undefined : followRun(runId);
  }, [runId]);
}
