/** The kernel as a map, with what its cells mean and how they are ordered. */

import { useMemo, useRef } from "react";
import { symmetricScale } from "@/charts/heatmap/heatScale";
import { formatCount, formatRate } from "@/lib/format";
import { FULL_KERNEL_NOT_STORED } from "@/lib/messages";
import { useTheme } from "@/lib/theme";
import { useUrlChoice } from "@/lib/urlState";
import { Panel, type PanelState, Segmented } from "@/ui";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { exportItems } from "@/ui/export/exportItems";
import { cellsOf, type InfluenceData, type MapOrder, orderOf, type Quantity } from "./influenceData";
import { KernelMap } from "./KernelMap";
import { promptNames } from "./prompts";

interface KernelPanelProps {
  influence: InfluenceData;
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

export default function KernelPanel({ influence, selected, onSelect, onColumn, error }: KernelPanelProps) {
  const theme = useTheme();
  const container = useRef<HTMLDivElement>(null);
  const [quantity, setQuantity] = useUrlChoice<Quantity>("cell", ["contribution", "kernel", "cosine"]);
  const [by, setBy] = useUrlChoice<MapOrder>("order", ["prompt", "effect"]);
  const cells = useMemo(() => cellsOf(influence, quantity), [influence, quantity]);
  const order = useMemo(() => orderOf(influence, by), [influence, by]);
  const names = useMemo(() => promptNames(influence), [influence]);
  const largest = useMemo(() => largestOf(cells), [cells]);
  const scale = useMemo(() => symmetricScale(largest, theme), [largest, theme]);
  if (cells === null) return <Panel title="Kernel" className="h-full" state={missing(influence, error)} />;
  const files = () => exportItems(`kernel-${influence.result.name}`, () => container.current, columns, body);
  const columns = () => [
    { name: "sequence", cells: influence.batch.sequences.map(({ sequence_id }) => sequence_id) },
    ...influence.result.update.map(({ sequence_id }, column) => ({
      name: sequence_id,
      cells: influence.batch.sequences.map((_, row) => cells[row * influence.result.update.length + column]),
    })),
  ];
  const body = () => ({
    result: influence.result.id,
    quantity,
    rows: influence.batch.sequences.map(({ sequence_id }) => sequence_id),
    columns: influence.result.update.map(({ sequence_id }) => sequence_id),
    cells: influence.batch.sequences.map((_, row) =>
      Array.from(
        cells.subarray(row * influence.result.update.length, (row + 1) * influence.result.update.length),
      ),
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
  const fact = `${formatCount(influence.batch.sequences.length)} × ${formatCount(influence.result.update.length)}`;
  return (
    <Panel title="Kernel" fact={fact} tools={tools} className="h-full" bodyClassName="px-3 pb-1">
      <div ref={container} className="flex min-h-0 flex-1">
        <KernelMap {...{ influence, names, cells, largest, order, selected, onSelect, onColumn, theme }} />
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

function missing({ batch }: InfluenceData, error: string | null): PanelState {
  if (error !== null) return { kind: "error", title: "Could not load the kernel", text: error };
  if (batch.has_kernel) return { kind: "loading" };
  const text = (
    <>
      Only the largest contributors were stored. Run the plan with{" "}
      <code className="font-mono">full_kernel: true</code> to see all pairs and to try other advantages.
    </>
  );
  return { kind: "empty", title: FULL_KERNEL_NOT_STORED, text };
}
