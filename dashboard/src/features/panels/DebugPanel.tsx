/** Step data shown by its panel hint: any hook gets a panel with no code for the page. */
import { useRef } from "react";
import { formatCount } from "@/lib/format";
import type { MetricsProps } from "./DebugMetricsTable";
import { DebugMetricsTable } from "./DebugMetricsTable";
import { HintImages } from "./ImagesPanel";
import { HintMatrix } from "./MatrixPanel";
import { HintExport, HintPanel, type HintPanelProps } from "./PanelFrame";
import { HintScatter } from "./ScatterPanel";
import { HintSeries } from "./SeriesPanel";

export interface DebugPanelProps extends MetricsProps {
  runId: string;
}

/** Words that a hook pushed. */
function HintText(props: HintPanelProps) {
  const { entry } = props;
  const place = useRef<HTMLPreElement>(null);
  const text = String(entry.data);
  const columns = () => [{ name: "text", cells: text.split("\n") }];
  return (
    <HintPanel
      {...props}
      fact={`step ${formatCount(entry.step)}`}
      tools={<HintExport entry={entry} place={place} columns={columns} />}
    >
      <pre
        ref={place}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
        className="min-h-0 flex-1 overflow-auto px-3 py-1 font-mono whitespace-pre-wrap"
      >
        {text}
      </pre>
    </HintPanel>
  );
}

export default function DebugPanel(props: DebugPanelProps) {
  const { entry } = props;
  switch (entry.panel.kind) {
    case "table":
      return <DebugMetricsTable {...props} />;
    case "scatter":
      return <HintScatter {...props} />;
    case "matrix":
      return <HintMatrix key={entry.key} {...props} />;
    case "images":
      return <HintImages {...props} />;
    case "series":
      return <HintSeries {...props} />;
    case "text":
      return <HintText {...props} />;
  }
}
