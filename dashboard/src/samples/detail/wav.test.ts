import { describe, expect, it } from "vitest";
import { wavBytes } from "./wav";

const samplesOf = (buffer: ArrayBuffer) => [...new Int16Array(buffer.slice(44))];
const wordAt = (buffer: ArrayBuffer, at: number) => new TextDecoder().decode(new Uint8Array(buffer, at, 4));

describe("wavBytes", () => {
  it("writes a header that says what follows", () => {
    const buffer = wavBytes([0, 1, -1, 0.5], 1, 8_000);
    const view = new DataView(buffer);
    expect([wordAt(buffer, 0), wordAt(buffer, 8), wordAt(buffer, 36)]).toEqual(["RIFF", "WAVE", "data"]);
    expect([view.getUint16(22, true), view.getUint32(24, true), view.getUint32(28, true)]).toEqual([
      1, 8_000, 16_000,
    ]);
    expect(view.getUint32(40, true)).toBe(8);
    expect(samplesOf(buffer)).toEqual([0, 32_767, -32_767, 16_384]);
  });

  it("takes turns between channels, and cuts none short", () => {
    const buffer = wavBytes([0.25, 0.5, -0.25, -0.5], 2, 100);
    expect(samplesOf(buffer)).toEqual([8_192, -8_192, 16_384, -16_383]);
  });

  it("makes a sound that is too loud quieter instead of clipping it, and NaN silent", () => {
    expect(samplesOf(wavBytes([4, -2, Number.NaN, Number.POSITIVE_INFINITY], 1, 100))).toEqual([
      32_767, -16_383, 0, 0,
    ]);
  });
});
