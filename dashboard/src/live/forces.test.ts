import { describe, expect, it } from "vitest";
import type { ForcesOut } from "@/api/types";
import { readCosine, readForces } from "./forces";
import { readTrajectories } from "./trajectories";

/** A file as the server writes it. */
function safetensors(
  metadata: Record<string, string>,
  tensors: Record<string, { dtype: "F32" | "F64" | "I64"; shape: number[]; bytes: Uint8Array }>,
): ArrayBuffer {
  let end = 0;
  const header: Record<string, unknown> = { __metadata__: metadata };
  for (const [name, { dtype, shape, bytes }] of Object.entries(tensors)) {
    header[name] = { dtype, shape, data_offsets: [end, end + bytes.length] };
    end += bytes.length;
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const file = new Uint8Array(8 + text.length + end);
  new DataView(file.buffer).setBigUint64(0, BigInt(text.length), true);
  file.set(text, 8);
  let at = 8 + text.length;
  for (const { bytes } of Object.values(tensors)) {
    file.set(bytes, at);
    at += bytes.length;
  }
  return file.buffer;
}

const bytes = (view: ArrayBufferView<ArrayBuffer>) => new Uint8Array(view.buffer);

describe("forces", () => {
  it("become columns, with NaN as such and verdicts apart", () => {
    const answer = {
      step: 3,
      features: { id: [0, 1], cos_grad_som: ["NaN", -0.5], verdict: ["neutral", "fight"] },
    } as unknown as ForcesOut;
    const { columns, verdicts } = readForces(answer);
    expect([...(columns.get("cos_grad_som") ?? [])]).toEqual([Number.NaN, -0.5]);
    expect(columns.has("verdict")).toBe(false);
    expect(verdicts).toEqual(["neutral", "fight"]);
  });
});

describe("cosine matrices", () => {
  it("come as bytes with what is known of them as text", () => {
    const file = safetensors(
      {
        step: "3",
        rows: "2",
        averaged: "False",
        mean_offdiag: "0.5",
        std_offdiag: "nan",
        max_offdiag: "None",
        order: "id",
        source: "weights",
        tensor: "w",
      },
      {
        matrix: { dtype: "F32", shape: [2, 2], bytes: bytes(Float32Array.of(1, 0.5, 0.5, 1)) },
        permutation: { dtype: "I64", shape: [2], bytes: bytes(BigInt64Array.of(1n, 0n)) },
      },
    );
    const matrix = readCosine(file);
    expect(matrix).toMatchObject({
      side: 2,
      rows: 2,
      averaged: false,
      mean: 0.5,
      std: Number.NaN,
      max: null,
    });
    expect(matrix.permutation).toEqual([1, 0]);
    expect(matrix.values[1]).toBe(0.5);
  });
});

describe("trajectories", () => {
  it("are told apart by source, row and pair; a column may have dots in its name", () => {
    const column = (values: number[]) => ({
      dtype: "F64" as const,
      shape: [values.length],
      bytes: bytes(Float64Array.from(values)),
    });
    const file = safetensors(
      { sources: '["w","b.c"]', watched: "[[3],[]]", exact: "true" },
      {
        "0/3.step": column([1, 2]),
        "0/3.a.b": column([5, 6]),
        "0/3,4.cos": column([0.1]),
        "1/7.step": column([1]),
      },
    );
    const { sources, exact } = readTrajectories(file);
    expect(exact).toBe(true);
    expect(sources.map(({ source, watched }) => [source, watched])).toEqual([
      ["w", [3]],
      ["b.c", []],
    ]);
    expect([...(sources[0]?.rows.get(3)?.columns.get("a.b") ?? [])]).toEqual([5, 6]);
    expect([...(sources[0]?.pairs.keys() ?? [])]).toEqual(["3,4"]);
    expect(sources[1]?.rows.has(7)).toBe(true);
  });
});
