/** The samples of the last captured batch, and one of them at full resolution. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import type { ApiError } from "@/api/client";
import { readSample } from "@/api/samples";
import { type BatchRange, readBatch, type ShownBatch } from "@/api/tiles";
import type { SampleOut } from "@/api/types";
import { type Capture, useCapture } from "./captures";
import { useRun } from "./store";

/** Samples `first` to `first + count` of the newest batch. */
export function useBatch({ first, count }: BatchRange): Capture<ShownBatch> {
  return useCapture({
    spec: { kind: "batch", first, count },
    moment: ({ has_batch, timeline, batch_step }) => (has_batch ? `${timeline} ${batch_step}` : null),
    load: ({ reader, runId, etag, signal }) => readBatch(reader, runId, { first, count }, etag, signal),
  });
}

/** Samples that are kept: a few to compare, each may be some megabytes. */
const MAX_SAMPLES_KEPT = 5;
const SAMPLES = "sample";

/** A sample of the batch of `step` at full resolution; nothing is requested while `index` is null. */
export function useSample(step: number, index: number | null) {
  const runId = useRun((run) => run.runId);
  const queries = useQueryClient();
  const query = useQuery<SampleOut, ApiError>({
    queryKey: [SAMPLES, runId, step, index],
    queryFn: ({ signal }) => readSample({ runId: runId ?? "", index: index ?? 0 }, signal),
    enabled: runId !== null && index !== null,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const { dataUpdatedAt } = query;
  useEffect(() => {
    if (dataUpdatedAt === 0) return;
    const cache = queries.getQueryCache();
    const newestFirst = cache
      .findAll({ queryKey: [SAMPLES] })
      .sort((a, b) => b.state.dataUpdatedAt - a.state.dataUpdatedAt);
    for (const old of newestFirst.slice(MAX_SAMPLES_KEPT)) cache.remove(old);
  }, [dataUpdatedAt, queries]);
  return query;
}
