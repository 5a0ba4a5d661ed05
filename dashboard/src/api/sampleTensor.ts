/** All values of a sample. A module of its own: few samples need them. */
import { api } from "./client";
import { readSafetensors } from "./safetensors";
import { type SampleAddress, samplePath } from "./samples";
import { Tensor, toNumbers } from "./tensors";

/** All values of a sample, as the batch has them. */
export async function readSampleTensor(address: SampleAddress, signal?: AbortSignal): Promise<Tensor> {
  const { tensors } = readSafetensors(await api.bytes(samplePath(address, "&format=safetensors"), signal));
  const sample = tensors.get("sample");
  if (sample === undefined) throw new TypeError("the answer has no sample");
  return new Tensor(sample.shape, toNumbers(sample.data));
}
