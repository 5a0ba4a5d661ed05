/** Requests about one run of the list: read, start, end, label, delete. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import { newId } from "@/lib/ids";
import { type ApiError, api, runPath } from "./client";
import { dropRun, followRunList, putRun, useRunTable, wantAllRuns } from "./runList";
import type {
  ConsolePart,
  LineageOut,
  RecipeList,
  RecipeSettingValue,
  Removed,
  RunDetail,
  RunFiles,
  RunRow,
  StopLevel,
} from "./types";

/** Keeps the list of runs up to date while the component is mounted. */
export function useRunListFeed(): void {
  useEffect(followRunList, []);
}

/** Loads all runs, and not only the newest, while the component is mounted. */
export function useAllRuns(): void {
  useEffect(wantAllRuns, []);
}

/** The runs that are loaded, newest first; undefined before the first answer. */
export function useRuns(): readonly RunRow[] | undefined {
  const rows = useRunTable((table) => (table.loaded ? table.rows : null));
  return useMemo(() => (rows === null ? undefined : [...rows.values()]), [rows]);
}

/** One row of the list; undefined while it is not known. */
export const useRunRow = (runId: string): RunRow | undefined => useRunTable(({ rows }) => rows.get(runId));

export const runDetailKey = (runId: string) => ["run", runId] as const;

/** One run with its header; with `polls` it is read again while it is live. */
export function useRunDetail(runId: string | null, { polls = false } = {}) {
  return useQuery<RunDetail, ApiError>({
    queryKey: runDetailKey(runId ?? ""),
    queryFn: ({ signal }) => api.get<"/runs/{run_id}">(runPath(runId ?? ""), signal),
    enabled: runId !== null,
    refetchInterval: ({ state }) => (polls && state.data?.live !== false ? 3_000 : false),
    refetchOnMount: polls ? "always" : true,
  });
}

export interface NewRun {
  recipe: string;
  name: string | null;
  settings: Record<string, RecipeSettingValue>;
  paused: boolean;
}

/** Starts a recipe in its own process. Two requests with one id start it once. */
export async function startRun({ recipe, name, settings, paused }: NewRun, id: string): Promise<RunRow> {
  const named = name === null ? {} : { name };
  const { body } = await api.post<"/runs">("/runs", { recipe, ...named, settings, paused, id });
  putRun(body);
  return body;
}

export const newRequestId = newId;

/** Ends a run: stops its loop, or sends SIGTERM or SIGKILL to its process. */
export async function endRun(runId: string, how: StopLevel): Promise<void> {
  if (how === "stop")
    await api.post<"/runs/{run_id}/debug/stop">(runPath(runId, "/debug/stop"), { id: newId() });
  else await api.post<"/runs/{run_id}/end">(runPath(runId, "/end"), { how });
}

/** Changes what people have written to a run. */
export async function labelRun(
  runId: string,
  labels: Partial<Pick<RunRow, "tags" | "note">>,
): Promise<RunRow> {
  const { body } = await api.patch<"/runs/{run_id}">(runPath(runId), labels);
  putRun(body);
  return body;
}

/** Deletes what the run lists as its own; `confirm` repeats the name of its directory. */
export async function deleteRun(runId: string, confirm: string): Promise<Removed> {
  const { body } = await api.delete<"/runs/{run_id}">(runPath(runId), { confirm });
  dropRun(runId);
  return body;
}

export function useRecipes() {
  return useQuery<RecipeList, ApiError>({
    queryKey: ["recipes"],
    queryFn: ({ signal }) => api.get<"/recipes">("/recipes", signal),
  });
}

/** The list of files is polled while the run is live. */
export function useRunFiles(runId: string, live: boolean, everyMs = 10_000) {
  return useQuery<RunFiles, ApiError>({
    queryKey: ["files", runId],
    queryFn: ({ signal }) => api.get<"/runs/{run_id}/files">(runPath(runId, "/files"), signal),
    refetchInterval: live ? everyMs : false,
    refetchOnMount: "always",
  });
}

export function useLineage(runId: string, timeline: number) {
  return useQuery<LineageOut, ApiError>({
    queryKey: ["lineage", runId, timeline],
    queryFn: ({ signal }) => api.get<"/runs/{run_id}/lineage">(runPath(runId, "/lineage"), signal),
  });
}

/** A record of the facts, as it was written. */
export interface EventRecord {
  seq: number;
  moment: string;
  step?: number | null;
  epoch?: number | null;
  time?: number | null;
  [field: string]: unknown;
}

export const MAX_EVENTS = 10_000;

/** The newest events of a run, oldest first, with those that came since `known`. */
export async function readEvents(
  runId: string,
  known: readonly EventRecord[],
  signal: AbortSignal,
): Promise<EventRecord[]> {
  let events = [...known];
  for (let after = events.at(-1)?.seq ?? 0; ; ) {
    const part = await api.get<"/runs/{run_id}/events">(
      runPath(runId, `/events?after_seq=${after}&limit=${MAX_EVENTS}`),
      signal,
    );
    // A record is sent as it was written.
    events = [...events, ...(part.events as EventRecord[])].slice(-MAX_EVENTS);
    if (!part.more || part.seq <= after) return events;
    after = part.seq;
  }
}

/** A part of what the run printed: its end, or what came after a byte. */
export function readConsole(
  runId: string,
  from: { tail: number } | { after: number },
  signal: AbortSignal,
): Promise<ConsolePart> {
  const query = "tail" in from ? `tail=${from.tail}` : `after=${from.after}`;
  return api.get<"/runs/{run_id}/console">(runPath(runId, `/console?${query}`), signal);
}

/** The bytes of a file of a run. */
export function readRunFile(runId: string, fileId: string, signal?: AbortSignal): Promise<Blob> {
  return api.blob(runPath(runId, `/files/${encodeURIComponent(fileId)}`), signal);
}
