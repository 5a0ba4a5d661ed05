/** Which rows of which tensors are watched. The server has the list; the page changes it whole, and offers to undo. */
import { useEffect, useRef } from "react";
import { create } from "zustand";
import { ApiError, api, runPath } from "@/api/client";
import type { WatchOut } from "@/api/types";
import { showToast } from "@/lib/toasts";
import { useRun } from "./store";

interface Watches {
  /** The tensor that was chosen last. */
  source: string | null;
  /** Watched rows by tensor. */
  ids: Readonly<Record<string, readonly number[]>>;
  /** Tensors whose rows can be watched. */
  sources: readonly string[];
}

const NONE: Watches = { source: null, ids: {}, sources: [] };

export const useWatches = create<Watches>()(() => NONE);

function take(answer: WatchOut): void {
  const own = answer.source === null ? {} : { [answer.source]: answer.feature_ids };
  useWatches.setState({ source: answer.source, ids: { ...answer.others, ...own }, sources: answer.sources });
}

/** Keeps the list as the server has it while a panel that shows it is open. */
export function useWatchList(): Watches {
  const runId = useRun((live) => live.runId);
  const restarts = useRun((live) => live.restarts);
  // A tensor that a hook pushes for the first time can be watched from then on. A state in the middle of a step lacks
  // keys, which would ask again at every other state.
  const pushed = useRun((live) => live.state?.step_data_keys.join("\n") ?? "");
  const seen = useRef(new Set<string>());
  for (const key of pushed.split("\n")) seen.current.add(key);
  const keysSeen = seen.current.size;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a restart and new keys ask again
  useEffect(() => {
    if (runId === null) return useWatches.setState(NONE);
    const closing = new AbortController();
    api
      .get<"/runs/{run_id}/debug/watch">(runPath(runId, "/debug/watch"), closing.signal)
      .then(take)
      .catch((error: unknown) => {
        // The next message of the run fetches again. A refused change shows its reason where it was made.
        if (!(error instanceof ApiError) && !closing.signal.aborted) throw error;
      });
    return () => closing.abort();
  }, [runId, restarts, keysSeen]);
  return useWatches();
}

/** Watched rows of one tensor. */
export function useWatchedRows(source: string | null): readonly number[] {
  return useWatches(({ ids }) => (source === null ? undefined : ids[source])) ?? EMPTY;
}

const EMPTY: readonly number[] = [];

async function replaceRows(source: string | null, rows: readonly number[]): Promise<boolean> {
  const { runId } = useRun.getState();
  if (runId === null) return false;
  try {
    take(
      (
        await api.post<"/runs/{run_id}/debug/watch">(runPath(runId, "/debug/watch"), {
          feature_ids: rows,
          source,
        })
      ).body,
    );
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    showToast({ kind: "refused", title: "Watch refused.", text: error.message });
    return false;
  }
}

function rowsOf(source: string | null): readonly number[] {
  const { ids, source: last } = useWatches.getState();
  return ids[source ?? last ?? ""] ?? EMPTY;
}

/** Follows rows of a tensor (of the run's own choice when null) beside the others; none only chooses the tensor. */
export async function addWatches(added: readonly number[], source: string | null): Promise<void> {
  const rows = rowsOf(source);
  await replaceRows(source, [...new Set([...rows, ...added])]);
}

/** Follows a row and offers to undo; a row that is followed already stays. */
export async function addWatch(row: number, source: string | null): Promise<void> {
  const rows = rowsOf(source);
  if (rows.includes(row)) return;
  if (!(await replaceRows(source, [...rows, row]))) return;
  showToast({
    kind: "done",
    title: `Watching ${row}${source === null ? "" : ` of ${source}`}.`,
    action: { label: "Undo", keys: "Ctrl Z", run: () => void replaceRows(source, rows) },
  });
}

/** Follows a row no longer; its line stays. */
export async function removeWatch(row: number, source: string): Promise<void> {
  const rows = rowsOf(source);
  if (
    !(await replaceRows(
      source,
      rows.filter((one) => one !== row),
    ))
  )
    return;
  showToast({
    kind: "done",
    title: `Stopped watching ${row}.`,
    action: { label: "Undo", keys: "Ctrl Z", run: () => void replaceRows(source, rows) },
  });
}

/** Takes over the list from another response. */
export function noteWatched(source: string, rows: readonly number[]): void {
  const held = useWatches.getState().ids[source] ?? EMPTY;
  if (held.length === rows.length && held.every((row, index) => row === rows[index])) return;
  useWatches.setState(({ ids }) => ({ ids: { ...ids, [source]: rows } }));
}
