/** The frame that all hinted panels share: title, key menu, fact, note, tools. */
import type { ReactNode } from "react";
import type { Theme } from "@/charts/colors/viridis";
import { downloadBlob, downloadText } from "@/lib/download";
import { Panel } from "@/ui";
import { csvOf, jsonOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { panelToPng } from "@/ui/export/panelToPng";
import type { Cell } from "@/ui/table/sortCells";
import type { Hinted } from "./hint";

export interface PanelFrameProps {
  entry: Hinted;
  /** Beside the title: another key to choose, or a larger view. */
  menu?: ReactNode;
  /** Last of the tools. */
  corner?: ReactNode;
  stale: string | null;
  theme: Theme;
}

interface FrameProps extends PanelFrameProps {
  fact: ReactNode;
  tools: ReactNode;
  children: ReactNode;
  bodyClassName?: string;
}

export function PanelFrame({ entry, menu, corner, stale, fact, tools, children, bodyClassName }: FrameProps) {
  return (
    <Panel
      title={entry.panel.title ?? entry.key}
      fact={
        <span className="flex items-center gap-2">
          {menu}
          <span className="truncate">{fact}</span>
        </span>
      }
      stale={stale}
      tools={
        <>
          {tools}
          {corner}
        </>
      }
      className="h-full"
      bodyClassName={bodyClassName}
    >
      {entry.note && <p className="px-3 pb-1 text-warn">{entry.note}</p>}
      {children}
    </Panel>
  );
}

interface PanelExportProps {
  entry: Hinted;
  /** An element inside the panel. */
  container: { current: Element | null };
  columns: () => readonly { name: string; cells: ArrayLike<Cell> }[];
}

/** PNG, CSV and JSON of what a hinted panel shows. */
export function PanelExport({ entry, container, columns }: PanelExportProps) {
  const name = `${entry.key}-${entry.step}`;
  const items = [
    {
      label: "PNG",
      onSelect: () =>
        void panelToPng(container.current).then((blob) => blob && downloadBlob(`${name}.png`, blob)),
    },
    { label: "CSV", onSelect: () => downloadText(`${name}.csv`, csvOf(columns()), "text/csv") },
    {
      label: "JSON",
      onSelect: () => {
        const body = Object.fromEntries(columns().map((column) => [column.name, Array.from(column.cells)]));
        downloadText(`${name}.json`, jsonOf(body), "application/json");
      },
    },
  ];
  return <ExportMenu subject={entry.panel.title ?? entry.key} items={items} />;
}
