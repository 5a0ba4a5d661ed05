/** One sample at full resolution: its values, its pictures, its tensor. */
import { api, runPath } from "./client";
import { readSafetensors } from "./safetensors";
import { Tensor, toNumbers } from "./tensors";
import type { SampleOut } from "./types";

export type Layer = "image" | "mask" | "prediction";

/** Which sample of which capture. */
export interface SampleAddress {
  runId: string;
  index: number;
  /** Only of this capture; the newest when left out. */
  etag?: string;
}

function samplePath({ runId, index, etag }: SampleAddress, rest = ""): string {
  const named = etag === undefined ? "" : `&etag=${encodeURIComponent(etag)}`;
  return runPath(runId, `/debug/batch/sample?index=${index}${named}${rest}`);
}

export function readSample(address: SampleAddress, signal?: AbortSignal): Promise<SampleOut> {
  return api.get<"/runs/{run_id}/debug/batch/sample">(samplePath(address), signal);
}

export function readSamplePicture(address: SampleAddress, layer: Layer, signal?: AbortSignal): Promise<Blob> {
  return api.blob(samplePath(address, `&format=png&layer=${layer}`), signal);
}

/** All values of a sample, as the batch has them. */
export async function readSampleTensor(address: SampleAddress, signal?: AbortSignal): Promise<Tensor> {
  const { tensors } = readSafetensors(await api.bytes(samplePath(address, "&format=safetensors"), signal));
  const sample = tensors.get("sample");
  if (sample === undefined) throw new TypeError("the answer has no sample");
  return new Tensor(sample.shape, toNumbers(sample.data));
}
