/** One sample at full resolution: what is known of it, and its pictures. */
import { api, runPath } from "./client";
import type { SampleOut } from "./types";

export type Layer = "image" | "mask" | "prediction";

/** Which sample of which capture. */
export interface SampleAddress {
  runId: string;
  index: number;
  /** Only of this capture; the newest when left out. */
  etag?: string;
}

export function samplePath({ runId, index, etag }: SampleAddress, rest = ""): string {
  const named = etag === undefined ? "" : `&etag=${encodeURIComponent(etag)}`;
  return runPath(runId, `/debug/batch/sample?index=${index}${named}${rest}`);
}

export function readSample(address: SampleAddress, signal?: AbortSignal): Promise<SampleOut> {
  return api.get<"/runs/{run_id}/debug/batch/sample">(samplePath(address), signal);
}

export function readSamplePicture(address: SampleAddress, layer: Layer, signal?: AbortSignal): Promise<Blob> {
  return api.blob(samplePath(address, `&format=png&layer=${layer}`), signal);
}
