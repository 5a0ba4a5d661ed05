/** Names of all scalars of the followed run: those in its record and those that came since. */
import { useMemo } from "react";
import { useRunDetail } from "@/api/runs";
import { useRunId } from "@/live/hooks";
import { series } from "@/live/store";

export function useScalarNames(): string[] {
  const recorded = useRunDetail(useRunId()).data?.scalars;
  const key = [...new Set([...(recorded ?? []), ...series.names])].sort().join("\n");
  return useMemo(() => (key === "" ? [] : key.split("\n")), [key]);
}
