/** Reads the safetensors format: 8 bytes header length, a JSON header, then the raw tensors, little endian. */

const READERS = {
  F64: Float64Array,
  F32: Float32Array,
  F16: Uint16Array,
  BF16: Uint16Array,
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
    const data = new Reader(buffer.slice(start + data_offsets[0], start + data_offsets[1]));
    tensors.set(name, { dtype, shape, data: widened(dtype, data) });
  }
  return { tensors, metadata };
}

/** Numbers of 16 bits, for which there are no typed arrays, as ones of 32 bits. */
function widened(dtype: DType, data: TensorData): TensorData {
  if (dtype === "BF16")
    return new Float32Array(Uint32Array.from(data as Uint16Array, (bits) => bits << 16).buffer);
  return dtype === "F16" ? Float32Array.from(data as Uint16Array, halfToNumber) : data;
}

/** A number of 5 bits of exponent and 10 of mantissa. */
function halfToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const mantissa = bits & 1023;
  if (exponent === 31) return mantissa ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  if (exponent === 0) return sign * mantissa * 2 ** -24;
  return sign * (1 + mantissa / 1024) * 2 ** (exponent - 15);
}

/** Any numeric tensor as 64-bit floats; step numbers beyond 2^53 do not occur. */
export function toFloat64(data: ArrayLike<number | bigint>): Float64Array {
  return data instanceof Float64Array ? data : Float64Array.from(data, Number);
}
