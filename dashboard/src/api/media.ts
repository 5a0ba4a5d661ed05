/** What a run logged beside numbers: the list, one group, a text or a table, a picture. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type ApiError, api, runPath } from "./client";
import type { MediaContent, MediaGroupDetail, MediaList } from "./types";

const POLL_MS = 2_000;

const pathOf = (runId: string, rest: string) => runPath(runId, `/media/${rest}`);

/** Everything that was logged, by name; read again while the run is live. */
export function useMediaList(runId: string, live: boolean) {
  return useQuery<MediaList, ApiError>({
    queryKey: ["media", runId],
    queryFn: ({ signal }) => api.get<"/runs/{run_id}/media">(runPath(runId, "/media"), signal),
    refetchInterval: live ? POLL_MS : false,
    refetchOnMount: "always",
  });
}

/** What is known of each item of a group; `version` changes with the group. */
export function useMediaGroup(runId: string, groupId: string, version: string) {
  return useQuery<MediaGroupDetail, ApiError>({
    queryKey: ["media", runId, groupId, version],
    queryFn: ({ signal }) =>
      api.get<"/runs/{run_id}/media/{group_id}">(pathOf(runId, encodeURIComponent(groupId)), signal),
    placeholderData: keepPreviousData,
  });
}

/** A text or a table. The one before stays until it is there. */
export function useMediaContent(runId: string, groupId: string, number: number) {
  return useQuery<MediaContent, ApiError>({
    queryKey: ["media", runId, groupId, "content", number],
    queryFn: ({ signal }) =>
      api.get<"/runs/{run_id}/media/{group_id}/{number}">(
        pathOf(runId, `${encodeURIComponent(groupId)}/${number}`),
        signal,
      ),
    placeholderData: keepPreviousData,
  });
}

export function readMediaPicture(
  runId: string,
  groupId: string,
  number: number,
  signal?: AbortSignal,
): Promise<Blob> {
  return api.blob(pathOf(runId, `${encodeURIComponent(groupId)}/${number}/picture`), signal);
}
