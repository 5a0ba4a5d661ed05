import { describe, expect, it } from "vitest";
import { readSafetensors, toFloat64 } from "./safetensors";

function file(header: object, body: ArrayBufferLike[]): ArrayBuffer {
  const text = new TextEncoder().encode(JSON.stringify(header));
  const length = new Uint8Array(8);
  new DataView(length.buffer).setBigUint64(0, BigInt(text.length), true);
  const parts = [length, text, ...body.map((part) => new Uint8Array(part))];
  const whole = new Uint8Array(parts.reduce((total, part) => total + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.length;
  }
  return whole.buffer;
}

describe("readSafetensors", () => {
  it("reads tensors of several kinds at any alignment, and the metadata", () => {
    const buffer = file(
      {
        __metadata__: { exact: "true" },
        flags: { dtype: "BOOL", shape: [3], data_offsets: [0, 3] },
        "loss.step": { dtype: "I64", shape: [2], data_offsets: [3, 19] },
        "loss.low": { dtype: "F32", shape: [2], data_offsets: [19, 27] },
      },
      [
        new Uint8Array([1, 0, 1]).buffer,
        new BigInt64Array([5n, 6n]).buffer,
        new Float32Array([0.5, Number.NaN]).buffer,
      ],
    );
    const { tensors, metadata } = readSafetensors(buffer);
    expect(metadata).toEqual({ exact: "true" });
    expect([...(tensors.get("flags")?.data ?? [])]).toEqual([1, 0, 1]);
    expect(tensors.get("loss.step")?.shape).toEqual([2]);
    expect([...toFloat64(tensors.get("loss.step")?.data as BigInt64Array)]).toEqual([5, 6]);
    expect([...toFloat64(tensors.get("loss.low")?.data as Float32Array)]).toEqual([0.5, Number.NaN]);
  });

  it("reads numbers of 16 bits", () => {
    const buffer = file(
      {
        half: { dtype: "F16", shape: [5], data_offsets: [0, 10] },
        brain: { dtype: "BF16", shape: [2], data_offsets: [10, 14] },
      },
      [
        new Uint16Array([0x3c00, 0xc000, 0x0001, 0x7c00, 0x7e00]).buffer,
        new Uint16Array([0x3f80, 0xc040]).buffer,
      ],
    );
    const { tensors } = readSafetensors(buffer);
    const half = [1, -2, 2 ** -24, Number.POSITIVE_INFINITY, Number.NaN];
    expect([...(tensors.get("half")?.data ?? [])]).toEqual(half);
    expect([...(tensors.get("brain")?.data ?? [])]).toEqual([1, -3]);
  });

  it("refuses a header that runs past the end", () => {
    const short = new ArrayBuffer(16);
    new DataView(short).setBigUint64(0, 1_000n, true);
    expect(() => readSafetensors(short)).toThrow("runs past the end");
  });

  it("names a tensor it cannot read", () => {
    const buffer = file({ half: { dtype: "F8_E5M2", shape: [0], data_offsets: [0, 0] } }, []);
    expect(() => readSafetensors(buffer)).toThrow("half");
  });
});
