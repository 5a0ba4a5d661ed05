/** What the last step did to the rows of a tensor: forces, one row in detail, and how alike the rows are. */
import { api, runPath } from "@/api/client";
import { readSafetensors } from "@/api/safetensors";
import { toNumbers } from "@/api/tensors";
import {
  type ForceDetailOut,
  type ForcesOut,
  fromWire,
  type MatrixSource,
  type PanelOut,
  type StateOut,
  type StepDataKeys,
} from "@/api/types";
import { type Capture, useCapture } from "./captures";
import { useRunId, useRunState } from "./hooks";
import { useLatestRequest } from "./latestRequest";
import { useRun } from "./store";
import type { CaptureKind, CaptureSpec } from "./subscriptions";

/** Names the step that changed the weights; null before the first. */
const momentOf = ({ step, timeline }: StateOut) => (step > 0 ? `${timeline} ${step}` : null);

/** What is shown of a tensor; null for the tensor that the run chooses. */
function specOf(kind: CaptureKind, tensor: string | null): CaptureSpec {
  return tensor === null ? { kind } : { kind, key: tensor };
}

function query(values: Record<string, string | null>): string {
  const given = Object.entries(values).filter((entry): entry is [string, string] => entry[1] !== null);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

export interface Forces extends Omit<ForcesOut, "features"> {
  /** Columns of numbers by name, `verdict` left out. */
  columns: ReadonlyMap<string, Float64Array>;
  verdicts: readonly string[];
}

export function readForces(answer: ForcesOut): Forces {
  const { features, ...rest } = answer;
  const columns = new Map<string, Float64Array>();
  for (const [name, cells] of Object.entries(features)) {
    if (name === "verdict") continue;
    columns.set(
      name,
      Float64Array.from(cells, (cell) => Number(fromWire(cell as number) ?? Number.NaN)),
    );
  }
  return { ...rest, columns, verdicts: (features.verdict ?? []) as string[] };
}

/** Both forces on every row of a tensor; of the run's own choice when null. */
export function useForces(tensor: string | null): Capture<Forces> {
  return useCapture({
    spec: specOf("forces", tensor),
    moment: momentOf,
    load: async ({ runId, reader, signal }) =>
      readForces(
        await reader.get<"/runs/{run_id}/debug/forces">(
          runPath(runId, `/debug/forces${query({ tensor })}`),
          signal,
        ),
      ),
  });
}

export interface ForceDetail {
  step: number;
  feature: number;
  tensor: string;
  gradDelta: Float64Array;
  somDelta: Float64Array;
  combined: Float64Array;
  weight: Float64Array;
  cosine: number;
  rowShape: readonly number[];
}

export function readDetail(answer: ForceDetailOut): ForceDetail {
  const numbers = (cells: ForceDetailOut["combined"]) =>
    Float64Array.from(cells, (cell) => fromWire(cell) ?? Number.NaN);
  return {
    step: answer.step,
    feature: answer.feature,
    tensor: answer.tensor,
    gradDelta: numbers(answer.grad_delta),
    somDelta: numbers(answer.som_delta),
    combined: numbers(answer.combined),
    weight: numbers(answer.current_weight),
    cosine: fromWire(answer.cos_grad_som) ?? Number.NaN,
    rowShape: answer.row_shape,
  };
}

/** One row's change in its two parts; nothing while no row is chosen. */
export function useForceDetail(tensor: string | null, feature: number | null): Capture<ForceDetail> {
  return useCapture({
    spec: feature === null ? null : specOf("forces", tensor),
    variant: `row ${feature}`,
    moment: momentOf,
    load: async ({ runId, reader, signal }) => {
      const rest = `/debug/step_data/force_detail${query({ feature: String(feature), tensor })}`;
      return readDetail(
        await reader.get<"/runs/{run_id}/debug/step_data/force_detail">(runPath(runId, rest), signal),
      );
    },
  });
}

export interface CosineRequest {
  source: MatrixSource;
  tensor: string | null;
  /** `id`, `cluster` or `metric:NAME`. */
  order: string;
  /** All cells, also above 512 rows. */
  full: boolean;
}

export interface CosineMatrix {
  step: number;
  tensor: string;
  source: MatrixSource;
  order: string;
  /** Rows of the tensor. */
  rows: number;
  /** Cells of a side. */
  side: number;
  averaged: boolean;
  values: Float32Array;
  /** Row numbers in the order of the matrix. */
  permutation: readonly number[];
  mean: number | null;
  std: number | null;
  max: number | null;
}

/** Metadata travels as text, "None" for what is not there. */
function figure(text: string | undefined): number | null {
  return text === undefined || text === "None"
    ? null
    : Number(text.replace("nan", "NaN").replace("inf", "Infinity"));
}

export function readCosine(buffer: ArrayBuffer): CosineMatrix {
  const { tensors, metadata } = readSafetensors(buffer);
  const matrix = tensors.get("matrix");
  const permutation = tensors.get("permutation");
  if (matrix === undefined || permutation === undefined) throw new TypeError("the answer holds no matrix");
  return {
    step: Number(metadata.step),
    tensor: metadata.tensor ?? "",
    source: metadata.source as MatrixSource,
    order: metadata.order ?? "id",
    rows: Number(metadata.rows),
    side: matrix.shape[0] ?? 0,
    averaged: metadata.averaged === "True",
    values: matrix.data instanceof Float32Array ? matrix.data : Float32Array.from(toNumbers(matrix.data)),
    permutation: Array.from(toNumbers(permutation.data)),
    mean: figure(metadata.mean_offdiag),
    std: figure(metadata.std_offdiag),
    max: figure(metadata.max_offdiag),
  };
}

/** Cosines of all pairs of rows; nothing while null. */
export function useCosineMatrix(request: CosineRequest | null): Capture<CosineMatrix> {
  const rest = request === null ? "" : cosineQuery(request);
  // The weights themselves need no copy from before the step.
  const kind = request?.source === "weights" ? "weights" : "cosine_matrix";
  return useCapture({
    spec: request === null ? null : specOf(kind, request.tensor),
    variant: rest,
    moment: momentOf,
    load: async ({ runId, reader, signal }) =>
      readCosine(
        await (request?.full ? api : reader).bytes(runPath(runId, `/debug/cosine_matrix${rest}`), signal),
      ),
  });
}

function cosineQuery({ source, tensor, order, full }: CosineRequest): string {
  return query({ source, tensor, order, full: full ? "1" : null, format: "safetensors" });
}

/** The hint of the table whose rows are those of a tensor; null if no hook pushed one. */
export function useRowPanel(tensor: string | null): PanelOut | null {
  const runId = useRunId();
  const restarts = useRun((live) => live.restarts);
  const hinted = useRunState((state) => Object.keys(state.step_data_panels).join("\n")) ?? "";
  const key = runId === null || hinted === "" ? null : [runId, restarts, hinted].join("\n");
  const { data } = useLatestRequest<StepDataKeys>(
    key,
    (_, signal) =>
      api.get<"/runs/{run_id}/debug/step_data/keys">(runPath(runId ?? "", "/debug/step_data/keys"), signal),
    { intervalMs: 0 },
  );
  const panels = Object.values(data?.panels ?? {}).filter((panel) => panel !== null);
  const own = panels.filter(({ source }) => tensor !== null && source === tensor);
  return own.find(({ status }) => status !== null) ?? own[0] ?? null;
}
