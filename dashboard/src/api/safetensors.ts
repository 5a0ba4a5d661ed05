/** Reads the safetensors format: 8 bytes header length, a JSON header, then the raw tensors, little endian. */

const READERS = {
  F64: Float64Array,
  F32: Float32Array,
  I64: BigInt64Array,
  I32: Int32Array,
  I16: Int16Array,
  I8: Int8Array,
  U8: Uint8Array,
  BOOL: Uint8Array,
} as const;

type DType = keyof typeof READERS;
export type TensorData = InstanceType<(typeof READERS)[DType]>;

export interface Tensor {
  dtype: DType;
  shape: number[];
  data: TensorData;
}

export interface SafeTensors {
  tensors: Map<string, Tensor>;
  metadata: Record<string, string>;
}

interface Entry {
  dtype: DType;
  shape: number[];
  data_offsets: [number, number];
}

/** Splits a file into typed arrays; each has memory of its own, so alignment is never a question. */
export function readSafetensors(buffer: ArrayBuffer): SafeTensors {
  const headerBytes = Number(new DataView(buffer).getBigUint64(0, true));
  const start = 8 + headerBytes;
  if (start > buffer.byteLength)
    throw new RangeError(`safetensors header of ${headerBytes} bytes runs past the end`);
  const { __metadata__: metadata = {}, ...entries } = JSON.parse(
    new TextDecoder().decode(new Uint8Array(buffer, 8, headerBytes)),
  ) as { __metadata__?: Record<string, string> } & Record<string, Entry>;
  const tensors = new Map<string, Tensor>();
  for (const [name, { dtype, shape, data_offsets }] of Object.entries(entries)) {
    const Reader = READERS[dtype];
    if (Reader === undefined)
      throw new TypeError(`tensor ${name} has dtype ${dtype}, which the page cannot read`);
    tensors.set(name, {
      dtype,
      shape,
      data: new Reader(buffer.slice(start + data_offsets[0], start + data_offsets[1])),
    });
  }
  return { tensors, metadata };
}

/** Any numeric tensor as 64-bit floats; step numbers beyond 2^53 do not occur. */
export function toFloat64(data: ArrayLike<number | bigint>): Float64Array {
  return data instanceof Float64Array ? data : Float64Array.from(data, Number);
}
