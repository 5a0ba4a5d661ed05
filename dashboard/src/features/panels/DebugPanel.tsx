/** Step data shown by its panel hint: any hook gets a panel with no code for the page. */
import { useRef } from "react";
import { formatCount } from "@/lib/format";
import type { MetricsProps } from "./DebugMetricsTable";
import { DebugMetricsTable } from "./DebugMetricsTable";
import { ImagesPanel } from "./ImagesPanel";
import { MatrixPanel } from "./MatrixPanel";
import { PanelExport, PanelFrame, type PanelFrameProps } from "./PanelFrame";
import { ScatterPanel } from "./ScatterPanel";
import { SeriesPanel } from "./SeriesPanel";

export interface DebugPanelProps extends MetricsProps {
  runId: string;
}

/** Words that a hook pushed. */
function TextPanel(props: PanelFrameProps) {
  const { entry } = props;
  const container = useRef<HTMLPreElement>(null);
  const text = String(entry.data);
  const columns = () => [{ name: "text", cells: text.split("\n") }];
  return (
    <PanelFrame
      {...props}
      fact={`step ${formatCount(entry.step)}`}
      tools={<PanelExport entry={entry} container={container} columns={columns} />}
    >
      <pre
        ref={container}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
        className="min-h-0 flex-1 overflow-auto px-3 py-1 font-mono whitespace-pre-wrap"
      >
        {text}
      </pre>
    </PanelFrame>
  );
}

export default function DebugPanel(props: DebugPanelProps) {
  const { entry } = props;
  switch (entry.panel.kind) {
    case "table":
      return <DebugMetricsTable {...props} />;
    case "scatter":
      return <ScatterPanel {...props} />;
    case "matrix":
      return <MatrixPanel key={entry.key} {...props} />;
    case "images":
      return <ImagesPanel {...props} />;
    case "series":
      return <SeriesPanel {...props} />;
    case "text":
      return <TextPanel {...props} />;
  }
}
