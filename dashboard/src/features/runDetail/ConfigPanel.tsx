/** The settings of a run, flat, to be searched. */

import { useMemo, useState } from "react";
import type { ConfigValue } from "@/api/types";
import { downloadText } from "@/lib/download";
import { plural } from "@/lib/format";
import { NOTHING_TO_EXPORT } from "@/lib/messages";
import { Field, Panel, type PanelState, rowClass } from "@/ui";
import { csvOf, jsonOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";

interface ConfigPanelProps {
  config: Readonly<Record<string, ConfigValue>>;
}

export function ConfigPanel({ config }: ConfigPanelProps) {
  const [words, setWords] = useState("");
  const entries = useMemo(() => Object.entries(config).sort(([a], [b]) => a.localeCompare(b)), [config]);
  const shown = entries.filter(([key, value]) =>
    `${key}=${value}`.toLowerCase().includes(words.toLowerCase().trim()),
  );
  return (
    <Panel
      title="Config"
      fact={plural(entries.length, "setting")}
      className="h-full"
      bodyClassName="overflow-auto"
      tools={
        <>
          <Field
            small
            label="Filter settings"
            placeholder="Filter"
            data-filter=""
            value={words}
            onChange={setWords}
            onRestore={() => setWords("")}
            className="w-28 font-normal"
          />
          <ExportMenu
            subject="config"
            disabledReason={entries.length === 0 ? NOTHING_TO_EXPORT : null}
            items={[
              {
                label: "JSON",
                onSelect: () => downloadText("config.json", jsonOf(config), "application/json"),
              },
              {
                label: "CSV",
                onSelect: () =>
                  downloadText(
                    "config.csv",
                    csvOf([
                      { name: "setting", cells: entries.map(([key]) => key) },
                      { name: "value", cells: entries.map(([, value]) => value) },
                    ]),
                    "text/csv",
                  ),
              },
            ]}
          />
        </>
      }
      state={stateOf(entries.length, shown.length)}
    >
      <table className="w-full table-fixed">
        <tbody>
          {shown.map(([key, value]) => (
            <tr key={key} className={rowClass()}>
              <th
                scope="row"
                className="w-1/2 truncate px-3 text-left font-mono font-normal text-t2"
                title={key}
              >
                {key}
              </th>
              <td className="truncate px-3 font-mono" title={String(value)}>
                {value === null ? "—" : String(value)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

function stateOf(all: number, shown: number): PanelState {
  if (shown > 0) return { kind: "data" };
  if (all > 0) return { kind: "empty", title: "No setting matches", text: "Change or clear the filter." };
  return { kind: "empty", title: "No config", text: "The run recorded no settings." };
}
