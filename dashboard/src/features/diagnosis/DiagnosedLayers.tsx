/** The layers in the order in which they ran: where the first bad value is, and which layers carry it. */
import { type DiagnosedLayer, type Diagnosis, fromWire, type WireNumber } from "@/api/types";
import { endLabel } from "@/charts/line/lines";
import { downloadText } from "@/lib/download";
import { formatCount, formatValue } from "@/lib/format";
import { Panel } from "@/ui";
import { csvOf, jsonOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { DataTable, type TableColumn } from "@/ui/table/DataTable";
import { badShare, layerCounts } from "./diagnosisText";

interface DiagnosedLayersProps {
  diagnosis: Diagnosis;
  stale: string | null;
}

export default function DiagnosedLayers({ diagnosis, stale }: DiagnosedLayersProps) {
  const { layers } = diagnosis;
  const first = layers.findIndex(({ status }) => status === "first");
  const wasRun = layers.some(({ role, bad }) => role === "module" && bad !== null);
  return (
    <Panel
      title="Layers"
      fact={
        <>
          <span className="text-bad">{layerCounts(layers)}</span>
          {wasRun && ", in the order they ran"}
        </>
      }
      stale={stale}
      tools={<ExportMenu subject="layers" items={exportsOf(diagnosis)} />}
      className="h-full"
      bodyClassName="-mt-1"
    >
      <DataTable
        key={`${diagnosis.timeline} ${diagnosis.step}`}
        label="Layers in the order they ran"
        columns={columnsOf(diagnosis)}
        // The first bad layer of a deep model comes into sight.
        current={first === -1 ? null : first}
        lookOf={(row) => ({ bad: row === first })}
      />
      {diagnosis.notes.length > 0 && (
        <p className="max-h-16 shrink-0 overflow-y-auto bg-s2 px-3 py-2 text-t2">
          {diagnosis.notes.join(" ")}
        </p>
      )}
    </Panel>
  );
}

const WORDS = { source: "Source", first: "First bad layer", carries: "Carries it", ok: "Finite" } as const;
const MARKS = {
  source: "bg-nan",
  first: "bg-bad-mark",
  carries: "border-[1.5px] border-bad-mark",
  ok: "border-[1.5px] border-line3",
} as const;

function columnsOf(diagnosis: Diagnosis): TableColumn[] {
  const { layers, weights_step } = diagnosis;
  const layerAt = (row: number) => layers[row] as DiagnosedLayer;
  const norms = (name: string, field: "gradient" | "weight" | "weight_before"): TableColumn => ({
    name,
    cells: layers.map((layer) => fromWire(layer[field])),
    numeric: true,
    track: { width: "minmax(60px,1fr)", least: 60 },
    render: (row) => <Norm value={layerAt(row)[field]} />,
  });
  const columns: TableColumn[] = [
    {
      name: "Layer",
      cells: layers.map(({ name }) => endLabel(name)),
      numeric: false,
      rowHeader: true,
      track: { width: "minmax(0,1.5fr)", least: 92 },
      titleOf: (row) => layerAt(row).name,
    },
    {
      name: "Status",
      cells: layers.map((layer) => statusWord(layer, diagnosis)),
      numeric: false,
      track: { width: "minmax(152px,1.9fr)", least: 152 },
      titleOf: (row) => statusWord(layerAt(row), diagnosis),
      render: (row) => <Status layer={layerAt(row)} diagnosis={diagnosis} />,
    },
    {
      name: "Output, % bad",
      cells: layers.map(({ bad }) => fromWire(bad)),
      numeric: true,
      track: { width: "minmax(90px,1fr)", least: 90 },
      render: (row) => badShare(layerAt(row)),
    },
    norms("Gradient", "gradient"),
    norms("Weight", "weight"),
  ];
  if (layers.every((layer) => layer.weight_before === null)) return columns;
  const headTitle = `Weight at step ${formatCount(weights_step)}, with which the modules were run again`;
  const before = norms(`Weight at ${formatCount(weights_step)}`, "weight_before");
  return [...columns, { ...before, headTitle, track: { width: "minmax(84px,1.1fr)", least: 84 } }];
}

function Status({ layer, diagnosis }: { layer: DiagnosedLayer; diagnosis: Diagnosis }) {
  const { status } = layer;
  const isBad = status === "first" || status === "source";
  const tone = isBad ? "text-bad" : status === "carries" ? "text-t2" : "text-t3";
  return (
    <span className={`${tone} ${status === "first" ? "font-medium" : ""}`}>
      <span className={`mr-2 inline-block size-2 shrink-0 rounded-full ${MARKS[status]}`} />
      {statusWord(layer, diagnosis)}
    </span>
  );
}

function statusWord({ role, status, bad }: DiagnosedLayer, diagnosis: Diagnosis): string {
  const { has_ids, samples, broken_samples } = diagnosis;
  // Code between two layers has no output of its own.
  if (status === "first" && bad === null) return "First bad value";
  if (status !== "source" || role !== "input") return status === "source" ? "Source: weight" : WORDS[status];
  if (broken_samples !== 1) return `Source: ${formatCount(broken_samples)} samples`;
  return has_ids
    ? `Source: sample ${formatCount(samples[0])}`
    : `Source: position ${formatCount(samples[0])}`;
}

function Norm({ value }: { value: WireNumber | null }) {
  const number = fromWire(value);
  const isBroken = number !== null && !Number.isFinite(number);
  const look = number === null ? "text-t3" : isBroken ? "font-medium text-bad" : "text-t2";
  return <span className={look}>{formatValue(number, 3)}</span>;
}

function exportsOf({ layers, step }: Diagnosis) {
  const name = `diagnosis-${step}`;
  const fields = ["name", "status", "bad", "gradient", "weight", "weight_before"] as const;
  const columns = fields.map((field) => ({ name: field, cells: layers.map((layer) => layer[field]) }));
  return [
    { label: "CSV, all rows", onSelect: () => downloadText(`${name}.csv`, csvOf(columns), "text/csv") },
    {
      label: "JSON, all rows",
      onSelect: () => downloadText(`${name}.json`, jsonOf(layers), "application/json"),
    },
  ];
}
