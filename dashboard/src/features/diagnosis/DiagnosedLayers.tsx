/** The layers in the order in which they ran: where the first bad value is, and which layers carry it. */
import { useEffect, useRef } from "react";
import { type DiagnosedLayer, type Diagnosis, fromWire, type WireNumber } from "@/api/types";
import { endLabel } from "@/charts/line/lines";
import { downloadText } from "@/lib/download";
import { formatCount, formatValue } from "@/lib/format";
import { Panel } from "@/ui";
import { csvOf, jsonOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { badShare, layerCounts } from "./words";

interface DiagnosedLayersProps {
  diagnosis: Diagnosis;
  stale: string | null;
}

export default function DiagnosedLayers({ diagnosis, stale }: DiagnosedLayersProps) {
  const { layers, weights_step } = diagnosis;
  const step = layers.some((layer) => layer.weight_before !== null) ? weights_step : null;
  const scroller = useRef<HTMLDivElement>(null);
  // The first bad layer of a deep model comes into sight.
  // biome-ignore lint/correctness/useExhaustiveDependencies: once for each stop, not while one reads
  useEffect(() => {
    const row = scroller.current?.querySelector<HTMLElement>("[aria-current]");
    if (scroller.current && row)
      scroller.current.scrollTop = row.offsetTop - scroller.current.clientHeight / 2;
  }, [diagnosis.step, diagnosis.timeline]);
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
      <div ref={scroller} className="relative min-h-0 flex-1 overflow-y-auto">
        <table className="w-full table-fixed" aria-label="Layers in the order they ran">
          <thead className="sticky top-0 z-10 bg-surface text-t3">
            <tr className="h-6 [&>th]:font-normal">
              <th className="w-[26%] pl-3 text-left">Layer</th>
              <th className="w-[25%] text-left">Status</th>
              <th className="text-right whitespace-nowrap">Output, % bad</th>
              <th className="text-right">Gradient</th>
              <th className={`text-right ${step === null ? "pr-3" : ""}`}>Weight</th>
              {step !== null && (
                <th
                  className="pr-3 text-right whitespace-nowrap"
                  title={`Weight at step ${formatCount(step)}, with which the modules were run again`}
                >
                  at {formatCount(step)}
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {layers.map((layer, index) => (
              <LayerRow
                // biome-ignore lint/suspicious/noArrayIndexKey: a module may be listed once per call
                key={index}
                {...{ layer, diagnosis }}
                hasBefore={step !== null}
              />
            ))}
          </tbody>
        </table>
      </div>
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

function LayerRow({
  layer,
  diagnosis,
  hasBefore,
}: {
  layer: DiagnosedLayer;
  diagnosis: Diagnosis;
  hasBefore: boolean;
}) {
  const { name, status, gradient, weight } = layer;
  const isFirst = status === "first";
  const ground = isFirst ? "bg-bad-soft shadow-[inset_2px_0_0_var(--bad-mark)]" : "hover:bg-s2";
  const tone = isFirst || status === "source" ? "text-bad" : status === "carries" ? "text-t2" : "text-t3";
  const word = statusWord(layer, diagnosis);
  return (
    <tr className={`h-6 ${ground} ${isFirst ? "font-medium" : ""}`} aria-current={isFirst || undefined}>
      <th scope="row" className="truncate pl-3 text-left font-medium" title={name}>
        {endLabel(name)}
      </th>
      <td className={`truncate ${tone}`} title={word}>
        <span className={`mr-2 inline-block size-2 shrink-0 rounded-full ${MARKS[status]}`} />
        {word}
      </td>
      <td className="text-right">{badShare(layer)}</td>
      <Norm value={gradient} />
      <Norm value={weight} last={!hasBefore} />
      {hasBefore && <Norm value={layer.weight_before} last />}
    </tr>
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

function Norm({ value, last = false }: { value: WireNumber | null; last?: boolean }) {
  const number = fromWire(value);
  const isBroken = number !== null && !Number.isFinite(number);
  const look = number === null ? "text-t3" : isBroken ? "font-medium text-bad" : "text-t2";
  return <td className={`text-right ${look} ${last ? "pr-3" : ""}`}>{formatValue(number, 3)}</td>;
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
