/** Sweeps: the list, one with its cells, and starting and stopping cells. */
import { useQuery } from "@tanstack/react-query";
import { type ApiError, api } from "./client";
import type { SweepList, SweepOut } from "./types";

const LIST_MS = 10_000;
/** A running sweep is read this often, one at rest as often as the list. */
const RUNNING_MS = 1_500;

const pathOf = (id: string, rest = "") => `/sweeps/${encodeURIComponent(id)}${rest}`;

/** The sweeps of the outputs folder, newest first. */
export function useSweeps() {
  return useQuery<SweepList, ApiError>({
    queryKey: ["sweeps"],
    queryFn: ({ signal }) => api.get<"/sweeps">("/sweeps", signal),
    refetchInterval: ({ state }) => (state.error ? false : LIST_MS),
  });
}

/** One sweep with its cells; `value` is the name of the shown value, empty for the usual one. */
export function useSweep(id: string | null, value: string) {
  const query = value === "" ? "" : `?value=${encodeURIComponent(value)}`;
  return useQuery<SweepOut, ApiError>({
    queryKey: ["sweeps", id, value],
    queryFn: ({ signal }) => api.get<"/sweeps/{sweep_id}">(pathOf(id ?? "", query), signal),
    enabled: id !== null,
    placeholderData: (before) => (before?.id === id ? before : undefined),
    refetchInterval: ({ state }) => (state.data?.pool || state.data?.states.running ? RUNNING_MS : LIST_MS),
    refetchOnMount: "always",
  });
}

export interface SweepStart {
  /** Also run cells that failed. */
  retryFailed?: boolean;
  /** Only these cells. */
  cells?: readonly number[];
}

/** Runs the open cells. */
export async function startSweep(id: string, { retryFailed = false, cells }: SweepStart = {}): Promise<void> {
  const body = { retry_failed: retryFailed, ...(cells ? { cells } : {}) };
  await api.post<"/sweeps/{sweep_id}/start">(pathOf(id, "/start"), body);
}

/** Stops a sweep, or one cell of it; each takes a checkpoint. */
export async function stopSweep(id: string, job?: number): Promise<void> {
  if (job === undefined) await api.post<"/sweeps/{sweep_id}/stop">(pathOf(id, "/stop"));
  else await api.post<"/sweeps/{sweep_id}/cells/{job}/stop">(pathOf(id, `/cells/${job}/stop`));
}
