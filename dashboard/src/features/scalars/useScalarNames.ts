/** Names of all scalars of the followed run: those in its record and those that came since. */
import { useMemo } from "react";
import { useRunDetail } from "@/api/runs";
import { useRunId } from "@/live/hooks";
import { series, useRun } from "@/live/store";

export function useScalarNames(): string[] {
  const recorded = useRunDetail(useRunId()).data?.scalars;
  // The store of the series is no state; what changes it gives `useRun` a new version.
  const streamed = useRun(() => series.names.join("\n"));
  const key = useMemo(() => {
    const names = streamed === "" ? [] : streamed.split("\n");
    return [...new Set([...(recorded ?? []), ...names])].sort().join("\n");
  }, [recorded, streamed]);
  return useMemo(() => (key === "" ? [] : key.split("\n")), [key]);
}
