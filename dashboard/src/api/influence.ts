/** Stored influence results: the list, one result, its batches and their kernels. */
import { useQuery } from "@tanstack/react-query";
import { type ApiError, api } from "./client";
import { readSafetensors } from "./safetensors";
import { toNumbers } from "./tensors";
import type { InfluenceListOut, InfluenceOut, InfluenceRequestOut } from "./types";

/** A new result is found within this time. */
const LIST_MS = 10_000;

const pathOf = (id: string, rest = "") => `/influence/${encodeURIComponent(id)}${rest}`;

/** Every stored result, newest first. */
export function useInfluenceList() {
  return useQuery<InfluenceListOut, ApiError>({
    queryKey: ["influence"],
    queryFn: ({ signal }) => api.get<"/influence">("/influence", signal),
    refetchInterval: ({ state }) =>
      state.error?.status === 401 || state.error?.status === 403 ? false : LIST_MS,
    refetchOnMount: "always",
  });
}

/** What a request is about: a result as it was written at some time, since the same folder may be written again. */
export interface ResultKey {
  id: string;
  madeAt: number;
}

export function useInfluenceResult(of: ResultKey | null) {
  return useQuery<InfluenceOut, ApiError>({
    queryKey: ["influence", of?.id, of?.madeAt],
    queryFn: ({ signal }) => api.get<"/influence/{result_id}">(pathOf(of?.id ?? ""), signal),
    enabled: of !== null,
  });
}

/** A batch by its number, or `update`. */
export function useInfluenceBatch(of: ResultKey | null, batch: string | null) {
  return useQuery<InfluenceRequestOut, ApiError>({
    queryKey: ["influence", of?.id, of?.madeAt, batch],
    queryFn: ({ signal }) =>
      api.get<"/influence/{result_id}/{batch}">(pathOf(of?.id ?? "", `/${batch}`), signal),
    enabled: of !== null && batch !== null,
  });
}

export interface Kernel {
  rows: number;
  columns: number;
  values: ArrayLike<number>;
}

export function readKernel(buffer: ArrayBuffer): Kernel {
  const kernel = readSafetensors(buffer).tensors.get("kernel");
  if (kernel === undefined || kernel.shape.length !== 2) throw new TypeError("the answer holds no kernel");
  const [rows = 0, columns = 0] = kernel.shape;
  return { rows, columns, values: toNumbers(kernel.data) };
}

/** K of all pairs, as bytes. */
export function useInfluenceKernel(of: ResultKey | null, batch: string | null, kept: boolean) {
  return useQuery<Kernel, ApiError>({
    queryKey: ["influence", of?.id, of?.madeAt, batch, "kernel"],
    queryFn: async ({ signal }) =>
      readKernel(await api.bytes(pathOf(of?.id ?? "", `/${batch}/kernel?format=safetensors`), signal)),
    enabled: of !== null && batch !== null && kept,
  });
}
