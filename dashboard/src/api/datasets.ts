/** Embedding datasets in the folders that the server was given: the list, one of them, its map, pairs, schedules, audit. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type ApiError, api } from "./client";
import type {
  CurriculumOut,
  DatasetAuditOut,
  DatasetListOut,
  DatasetMapOut,
  DatasetOut,
  DatasetSummary,
  PairListOut,
  PairOut,
} from "./types";

/** A new dataset is found within this time. */
const LIST_MS = 10_000;
/** Past the end of every schedule as it is by default. */
export const EPOCHS = 120;
export const PAGE = 100;

/** What a request is about: a dataset as it was written at some time, since the same folder may be written again. */
export type DatasetKey = Pick<DatasetSummary, "id" | "made_at" | "size_bytes">;

const pathOf = (of: DatasetKey | null, rest = "") => `/datasets/${encodeURIComponent(of?.id ?? "")}${rest}`;
const keyOf = (of: DatasetKey | null, ...rest: unknown[]) => [
  "datasets",
  of?.id,
  of?.made_at,
  of?.size_bytes,
  ...rest,
];

/** Every dataset, newest first. */
export function useDatasets() {
  return useQuery<DatasetListOut, ApiError>({
    queryKey: ["datasets"],
    queryFn: ({ signal }) => api.get<"/datasets">("/datasets", signal),
    refetchInterval: ({ state }) =>
      state.error?.status === 401 || state.error?.status === 403 ? false : LIST_MS,
    refetchOnMount: "always",
  });
}

export function useDataset(of: DatasetKey | null) {
  return useQuery<DatasetOut, ApiError>({
    queryKey: keyOf(of),
    queryFn: ({ signal }) => api.get<"/datasets/{dataset_id}">(pathOf(of), signal),
    enabled: of !== null,
  });
}

export function useDatasetMap(of: DatasetKey | null) {
  return useQuery<DatasetMapOut, ApiError>({
    queryKey: keyOf(of, "map"),
    queryFn: ({ signal }) => api.get<"/datasets/{dataset_id}/map">(pathOf(of, "/map"), signal),
    enabled: of !== null,
  });
}

/** Which pairs are listed. */
export interface PairFilter {
  split: string | null;
  cluster: number | null;
  offset: number;
}

/** The query of a list of pairs. */
export function pairQuery({ split, cluster, offset }: PairFilter): string {
  const query = new URLSearchParams({ offset: String(offset), limit: String(PAGE) });
  if (split !== null) query.set("split", split);
  if (cluster !== null) query.set("cluster", String(cluster));
  return query.toString();
}

export function usePairs(of: DatasetKey | null, filter: PairFilter) {
  const query = pairQuery(filter);
  return useQuery<PairListOut, ApiError>({
    queryKey: keyOf(of, "pairs", query),
    queryFn: ({ signal }) => api.get<"/datasets/{dataset_id}/pairs">(pathOf(of, `/pairs?${query}`), signal),
    enabled: of !== null,
    placeholderData: keepPreviousData,
  });
}

export function usePair(of: DatasetKey | null, pair: number | null) {
  return useQuery<PairOut, ApiError>({
    queryKey: keyOf(of, "pair", pair),
    queryFn: ({ signal }) =>
      api.get<"/datasets/{dataset_id}/pairs/{pair}">(pathOf(of, `/pairs/${pair}`), signal),
    enabled: of !== null && pair !== null,
    placeholderData: keepPreviousData,
  });
}

export function useCurriculum(of: DatasetKey | null) {
  return useQuery<CurriculumOut, ApiError>({
    queryKey: keyOf(of, "curriculum"),
    queryFn: ({ signal }) =>
      api.get<"/datasets/{dataset_id}/curriculum">(pathOf(of, `/curriculum?epochs=${EPOCHS}`), signal),
    enabled: of !== null,
  });
}

export function useDatasetAudit(of: DatasetKey | null) {
  return useQuery<DatasetAuditOut, ApiError>({
    queryKey: keyOf(of, "audit"),
    queryFn: ({ signal }) => api.get<"/datasets/{dataset_id}/audit">(pathOf(of, "/audit"), signal),
    enabled: of !== null,
  });
}
