/** The settings in which the chosen runs differ, side by side. */
import { useMemo } from "react";
import type { RunRow } from "@/api/types";
import { seriesColour } from "@/charts/colors/seriesColors";
import { downloadText } from "@/lib/download";
import { plural } from "@/lib/format";
import { IconButton, Panel } from "@/ui";
import { csvOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
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
  const fact = runs.length < 2 ? undefined : `${plural(diff.equal, "setting")} equal`;
  return (
    <Panel
      title="Config diff"
      fact={fact}
      className="h-full"
      bodyClassName="overflow-auto"
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
      <table className="w-full border-separate border-spacing-0">
        <thead className="sticky top-0 bg-surface text-left text-label text-t3">
          <tr>
            <th scope="col" className="h-6 border-b border-line px-3 font-normal">
              Setting
            </th>
            {runs.map((run) => (
              <th key={run.id} scope="col" className="h-6 border-b border-line px-3 font-normal">
                <span className="flex items-center gap-1.5">
                  <span
                    className="size-2.5 shrink-0 rounded-mark"
                    style={{ background: seriesColour(shown.get(run.id) ?? 6) }}
                  />
                  <span className="max-w-36 truncate font-mono" title={run.name}>
                    {run.name}
                  </span>
                </span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {diff.lines.map(({ key, values, differs }) => (
            <tr key={key} className="hover:bg-s2">
              <th scope="row" className="h-6 px-3 text-left font-mono font-normal text-t2">
                {key}
              </th>
              {values.map((value, index) => (
                <td
                  key={runs[index]?.id}
                  className={`h-6 max-w-56 truncate px-3 ${differs[index] ? "font-medium text-accent" : ""}`}
                  title={String(value ?? "not set")}
                >
                  {settingText(value)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

function save(runs: readonly RunRow[], { lines }: ConfigDiff): void {
  const columns = [
    { name: "setting", cells: lines.map(({ key }) => key) },
    ...runs.map((run, index) => ({ name: run.name, cells: lines.map(({ values }) => values[index]) })),
  ];
  downloadText("config-diff.csv", csvOf(columns), "text/csv");
}
