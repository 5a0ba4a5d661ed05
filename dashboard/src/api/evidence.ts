/** What was kept of a run: where it stopped and why, its end, its checkpoints. */
import { useQuery } from "@tanstack/react-query";
import { type ApiError, api, runPath } from "./client";
import type { KeptEvidence } from "./types";

const AGAIN_MS = 2_000;
/** The end of a run is written a moment after the run has ended. */
const MOST_REQUESTS = 4;

/** `state` is that of the run: another one is a reason to read again. */
export function useEvidence(runId: string | null, state: string | null) {
  return useQuery<KeptEvidence, ApiError>({
    queryKey: ["evidence", runId, state],
    queryFn: ({ signal }) => api.get<"/runs/{run_id}/evidence">(runPath(runId ?? "", "/evidence"), signal),
    enabled: runId !== null,
    refetchInterval: ({ state: query }) =>
      query.data?.end === null && query.dataUpdateCount < MOST_REQUESTS ? AGAIN_MS : false,
  });
}
