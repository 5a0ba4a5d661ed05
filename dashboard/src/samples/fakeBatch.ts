import type { BatchOut } from "@/api/types";

/** A batch of four images, for tests; `changes` make it another one. */
export function fakeBatch(changes: Partial<BatchOut> = {}): BatchOut {
  return {
    step: 0,
    loss: 0.1,
    kind: "images",
    shape: [4, 1, 8, 8],
    dtype: "float32",
    count: 4,
    first: 0,
    shown: 4,
    png: null,
    grid: null,
    mask: null,
    frames: null,
    rows: null,
    texts: null,
    lines: null,
    sample_rate: null,
    columns: null,
    note: null,
    labels: [7, 0, 1, 2],
    losses: [0.1, "NaN", 1, 0.01],
    loss_shares: null,
    loss_note: null,
    loss_fact: null,
    sample_ids: [70, 71, 72, 73],
    predictions: null,
    probabilities: null,
    etag: "1.0.1",
    nonfinite: 0,
    nonfinite_in: null,
    ...changes,
  };
}
