/** The settings in which the chosen runs differ, side by side. */
import { useMemo } from "react";
import type { RunRow } from "@/api/types";
import { SERIES, seriesColour } from "@/charts/colors/seriesColors";
import { downloadText } from "@/lib/download";
import { plural } from "@/lib/format";
import { IconButton, Panel } from "@/ui";
import { csvOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { DataTable, type TableColumn } from "@/ui/table/DataTable";
import { type ConfigDiff, configDiff } from "./configDiff";
import { settingText } from "./values";

interface ConfigDiffPanelProps {
  /** The first one is what the others are compared with. */
  runs: readonly RunRow[];
  shown: ReadonlyMap<string, number>;
  onClose: () => void;
}

export default function ConfigDiffPanel({ runs, shown, onClose }: ConfigDiffPanelProps) {
  const diff = useMemo(() => configDiff(runs), [runs]);
  const columns = useMemo(() => columnsOf(runs, diff, shown), [runs, diff, shown]);
  const fact = runs.length < 2 ? undefined : `${plural(diff.equal, "setting")} equal`;
  return (
    <Panel
      title="Config diff"
      fact={fact}
      className="h-full"
      tools={
        <>
          <IconButton icon="close" label="Close the diff" onClick={onClose} />
          <ExportMenu
            subject="config diff"
            disabledReason={diff.lines.length === 0 ? "Nothing differs" : null}
            items={[{ label: "CSV", onSelect: () => save(runs, diff) }]}
          />
        </>
      }
      state={
        runs.length < 2
          ? { kind: "empty", title: "Select two or more runs", text: "Select them in the table." }
          : diff.lines.length === 0
            ? {
                kind: "empty",
                title: "No setting differs",
                text: "The selected runs have the same settings.",
              }
            : { kind: "data" }
      }
    >
      <DataTable label="Settings that differ" columns={columns} />
    </Panel>
  );
}

function columnsOf(
  runs: readonly RunRow[],
  { lines }: ConfigDiff,
  shown: ReadonlyMap<string, number>,
): TableColumn[] {
  const ofRuns = runs.map(
    (run, index): TableColumn => ({
      name: run.id,
      title: run.name,
      numeric: false,
      cells: lines.map(({ values }) => settingText(values[index])),
      track: { width: "minmax(96px,224px)", least: 96 },
      titleOf: (row) => String(lines[row]?.values[index] ?? "not set"),
      head: (
        <span className="flex min-w-0 items-center gap-1.5">
          <span
            className="size-2.5 shrink-0 rounded-mark"
            style={{ background: seriesColour(shown.get(run.id) ?? SERIES) }}
          />
          <span className="max-w-36 truncate font-mono" title={run.name}>
            {run.name}
          </span>
        </span>
      ),
      render: (row) => (
        <span className={lines[row]?.differs[index] ? "font-medium text-accent" : ""}>
          {settingText(lines[row]?.values[index])}
        </span>
      ),
    }),
  );
  return [
    {
      name: "setting",
      title: "Setting",
      numeric: false,
      rowHeader: true,
      cells: lines.map(({ key }) => key),
      titleOf: (row) => lines[row]?.key,
      track: { width: "minmax(120px,260px)", least: 120 },
      look: "font-mono text-t2",
    },
    ...ofRuns,
  ];
}

function save(runs: readonly RunRow[], { lines }: ConfigDiff): void {
  const columns = [
    { name: "setting", cells: lines.map(({ key }) => key) },
    ...runs.map((run, index) => ({ name: run.name, cells: lines.map(({ values }) => values[index]) })),
  ];
  downloadText("config-diff.csv", csvOf(columns), "text/csv");
}
