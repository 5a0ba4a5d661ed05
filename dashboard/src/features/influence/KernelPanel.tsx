/** The kernel as a map, with what its cells mean and how they are ordered. */
import { useMemo, useRef } from "react";
import { symmetricScale } from "@/charts/heatmap/heatScale";
import { formatCount, formatRate } from "@/lib/format";
import { useTheme } from "@/lib/theme";
import { useUrlChoice } from "@/lib/urlState";
import { Panel, type PanelState, Segmented } from "@/ui";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { filesOf } from "./exports";
import { cellsOf, type MapOrder, orderOf, type Quantity, type Study } from "./influenceData";
import { KernelMap } from "./KernelMap";
import { promptNames } from "./prompts";

interface KernelPanelProps {
  study: Study;
  selected: number;
  onSelect: (row: number) => void;
  onColumn: (column: number) => void;
  /** Why there is no kernel though one was kept. */
  error: string | null;
}

const QUANTITIES = [
  { value: "contribution", label: "Contribution" },
  { value: "kernel", label: "K" },
  { value: "cosine", label: "Cosine" },
] as const;
const ORDERS = [
  { value: "prompt", label: "Prompt" },
  { value: "effect", label: "Effect" },
] as const;

export default function KernelPanel({ study, selected, onSelect, onColumn, error }: KernelPanelProps) {
  const theme = useTheme();
  const place = useRef<HTMLDivElement>(null);
  const [quantity, setQuantity] = useUrlChoice<Quantity>("cell", ["contribution", "kernel", "cosine"]);
  const [by, setBy] = useUrlChoice<MapOrder>("order", ["prompt", "effect"]);
  const cells = useMemo(() => cellsOf(study, quantity), [study, quantity]);
  const order = useMemo(() => orderOf(study, by), [study, by]);
  const names = useMemo(() => promptNames(study), [study]);
  const largest = useMemo(() => largestOf(cells), [cells]);
  const scale = useMemo(() => symmetricScale(largest, theme), [largest, theme]);
  if (cells === null) return <Panel title="Kernel" className="h-full" state={missing(study, error)} />;
  const files = () => filesOf(`kernel-${study.result.name}`, () => place.current, columns, body);
  const columns = () => [
    { name: "sequence", cells: study.batch.sequences.map(({ sequence_id }) => sequence_id) },
    ...study.result.update.map(({ sequence_id }, column) => ({
      name: sequence_id,
      cells: study.batch.sequences.map((_, row) => cells[row * study.result.update.length + column]),
    })),
  ];
  const body = () => ({
    result: study.result.id,
    quantity,
    rows: study.batch.sequences.map(({ sequence_id }) => sequence_id),
    columns: study.result.update.map(({ sequence_id }) => sequence_id),
    cells: study.batch.sequences.map((_, row) =>
      Array.from(cells.subarray(row * study.result.update.length, (row + 1) * study.result.update.length)),
    ),
  });
  const tools = (
    <>
      <span className="flex items-center gap-1.5 text-label text-t3 @max-[560px]:hidden">
        {formatRate(-rounded(largest))}
        <span className="h-2 w-14 rounded-mark" style={{ background: scale.gradient }} />
        {formatRate(rounded(largest))}
      </span>
      <Segmented label="Cells" value={quantity} choices={QUANTITIES} onChange={setQuantity} />
      <Segmented label="Order" value={by} choices={ORDERS} onChange={setBy} />
      <ExportMenu subject="kernel" items={files()} />
    </>
  );
  const fact = `${formatCount(study.batch.sequences.length)} × ${formatCount(study.result.update.length)}`;
  return (
    <Panel title="Kernel" fact={fact} tools={tools} className="h-full" bodyClassName="px-3 pb-1">
      <div ref={place} className="flex min-h-0 flex-1">
        <KernelMap {...{ study, names, cells, largest, order, selected, onSelect, onColumn, theme }} />
      </div>
    </Panel>
  );
}

/** Two figures say how far a scale reaches. */
function rounded(value: number): number {
  return Number(value.toPrecision(2));
}

function largestOf(cells: Float32Array | null): number {
  let largest = 0;
  for (const value of cells ?? []) if (Math.abs(value) > largest) largest = Math.abs(value);
  return largest;
}

function missing({ batch }: Study, error: string | null): PanelState {
  if (error !== null) return { kind: "error", title: "The kernel could not be read", text: error };
  if (batch.has_kernel) return { kind: "loading" };
  const text = (
    <>
      Only the largest contributors were stored. Run the plan with{" "}
      <code className="font-mono">full_kernel: true</code> to see all pairs and to try other advantages.
    </>
  );
  return { kind: "empty", title: "This batch kept no kernel", text };
}
