import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useRoute } from "wouter";
import type { RunRow } from "@/api/types";
import { useUrlState } from "@/lib/urlState";
import { followRun } from "@/live/followRun";
import { useRuns } from "@/live/hooks";
import { RUN_PATH } from "./routes";

/** The run that the address names; else the one already followed, the newest live one, the newest. */
export function chooseRun(
  runs: readonly RunRow[] | undefined,
  named: string,
  kept: string | null,
  whole = true,
): string | null {
  if (runs === undefined) return named || kept;
  const has = (id: string | null) => runs.some((run) => run.id === id);
  // Of a long list only the newest are here; the server knows whether the named one is among the others.
  if (named) return has(named) || !whole ? named : null;
  if (has(kept)) return kept;
  return (runs.find((run) => run.live) ?? runs[0])?.id ?? null;
}

/** Follows the chosen run; it does not change by itself when another one starts. */
export function useFollowedRun(): void {
  const [runParam] = useUrlState("run", "");
  const [onPage, params] = useRoute(RUN_PATH);
  const named = onPage ? decodeURIComponent(params.id) : runParam;
  const { data } = useRuns();
  const [kept, setKept] = useState<string | null>(null);
  const queries = useQueryClient();
  const whole = data === undefined || data.runs.length >= data.total;
  const unlisted = whole && named !== "" && data?.runs.every(({ id }) => id !== named) === true;
  useEffect(() => {
    // It may have begun since the list was read.
    if (unlisted) void queries.invalidateQueries({ queryKey: ["runs"] });
  }, [unlisted, queries]);
  const runId = chooseRun(data?.runs, named, kept, whole);
  useEffect(() => {
    setKept(runId);
    return runId === null ? undefined : followRun(runId);
  }, [runId]);
}
