/** Tensors that are too large for JSON come a second time as bytes, and take the place of their summaries. */
import { api, type Reader } from "./client";
import { readSafetensors, type TensorData } from "./safetensors";
import type { StepDataOut, TensorSummary } from "./types";

/** Elements that a panel takes whole at most: a matrix of 2,048 rows fits, 10⁸ elements do not. */
export const MAX_ELEMENTS = 8_000_000;

/** A tensor that came as bytes. */
export interface TensorLike {
  shape: readonly number[];
  values: ArrayLike<number>;
}

export class Tensor implements TensorLike {
  constructor(
    readonly shape: readonly number[],
    readonly values: ArrayLike<number>,
  ) {}
}

export function isSummary(value: unknown): value is TensorSummary {
  return isMapping(value) && value.summary === true && Array.isArray(value.shape);
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Tensor);
}

/** Elements of all summaries within. */
export function summarisedElements(data: unknown): number {
  if (isSummary(data)) return data.elements;
  if (Array.isArray(data)) return data.some(isContainer) ? sum(data.map(summarisedElements)) : 0;
  return isMapping(data) ? sum(Object.values(data).map(summarisedElements)) : 0;
}

function isContainer(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}

/** The same data with each summary replaced by its tensor, by the dotted names the bytes carry. */
export function withTensors(data: unknown, name: string, tensors: ReadonlyMap<string, TensorLike>): unknown {
  if (isSummary(data)) return tensors.get(name) ?? data;
  if (!isMapping(data)) return data;
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => [key, withTensors(value, `${name}.${key}`, tensors)]),
  );
}

/** Whole numbers of 64 bits as ordinary ones; none of them counts beyond 2^53 here. */
export function toNumbers(data: TensorData): ArrayLike<number> {
  return data instanceof BigInt64Array ? Float64Array.from(data, Number) : data;
}

/** Fetches one entry as JSON; large tensors follow as bytes. */
export async function getEntry(ask: Reader, path: string, signal: AbortSignal): Promise<StepDataOut> {
  const entry = await ask.get<"/runs/{run_id}/debug/step_data/{key}">(path, signal);
  if (!entry.summarised || !entry.panel || !entry.fits) return entry;
  if (summarisedElements(entry.data) > MAX_ELEMENTS) return entry;
  const { tensors, metadata } = readSafetensors(await api.bytes(`${path}?format=safetensors`, signal));
  // A step may finish between the two requests. The entry of that step is fetched next.
  if (metadata.step !== String(entry.step)) return entry;
  const bulk = new Map(
    [...tensors].map(([name, { shape, data }]) => [name, new Tensor(shape, toNumbers(data))]),
  );
  return { ...entry, data: withTensors(entry.data, entry.key, bulk), summarised: false };
}
