/** The files of a run: what they are, how large, and whether they go with it. */
import { useMemo, useState } from "react";
import { ApiError } from "@/api/client";
import { readRunFile, useRunFiles } from "@/api/runs";
import type { FileKind, RunFile } from "@/api/types";
import { downloadBlob } from "@/lib/download";
import { formatAge, formatBytes, plural } from "@/lib/format";
import { showToast } from "@/lib/toasts";
import { Icon, IconButton, Panel, type PanelState, panelState, rowClass } from "@/ui";

interface FilesPanelProps {
  runId: string;
  live: boolean;
  now: number;
}

const KINDS: readonly FileKind[] = [
  "artifact",
  "checkpoint",
  "figure",
  "facts",
  "config",
  "console",
  "other",
];
type SortKey = "path" | "kind" | "bytes" | "modified_at";

export default function FilesPanel({ runId, live, now }: FilesPanelProps) {
  const { data, error } = useRunFiles(runId, live);
  const [sort, setSort] = useState<{ key: SortKey; down: boolean }>({ key: "kind", down: false });
  const files = useMemo(() => sorted(data?.files ?? [], sort.key, sort.down), [data, sort]);
  const foreign = data && data.foreign > 0 ? `, ${plural(data.foreign, "file")} not written by midstep` : "";
  return (
    <Panel
      title="Files"
      fact={data ? `${plural(data.files.length, "file")}, ${formatBytes(data.bytes)}${foreign}` : undefined}
      className="h-full"
      bodyClassName="overflow-auto"
      state={stateOf(data !== undefined, files.length, error?.message ?? null)}
    >
      <table className="w-full table-fixed">
        <thead className="sticky top-0 bg-surface text-label text-t3">
          <tr>
            <Head name="path" label="File" sort={sort} onSort={setSort} />
            <Head name="kind" label="Kind" width="w-24" sort={sort} onSort={setSort} />
            <Head name="bytes" label="Size" width="w-24" right sort={sort} onSort={setSort} />
            <Head name="modified_at" label="Changed" width="w-24" right sort={sort} onSort={setSort} />
            <th className="w-12 border-b border-line">
              <span className="sr-only">Save</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {files.map((file) => (
            <tr key={file.id} className={rowClass()}>
              <td className="truncate px-3 font-mono" title={file.path}>
                {file.path}
              </td>
              <td className="px-3 text-t2">
                {file.kind}
                {!file.own && <span className="text-warn"> · not written by midstep</span>}
              </td>
              <td className="px-3 text-right">{formatBytes(file.bytes)}</td>
              <td className="px-3 text-right text-t2">{formatAge(Math.max(0, now - file.modified_at))}</td>
              <td className="pr-3 text-right">
                <IconButton
                  icon="download"
                  label={`Save ${file.path}`}
                  onClick={() => void save(runId, file)}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

interface HeadProps {
  name: SortKey;
  label: string;
  width?: string;
  right?: boolean;
  sort: { key: SortKey; down: boolean };
  onSort: (sort: { key: SortKey; down: boolean }) => void;
}

function Head({ name, label, width = "", right = false, sort, onSort }: HeadProps) {
  const on = sort.key === name;
  return (
    <th
      scope="col"
      aria-sort={on ? (sort.down ? "descending" : "ascending") : "none"}
      className={`border-b border-line px-3 font-normal ${width} ${right ? "text-right" : "text-left"}`}
    >
      <button
        type="button"
        onClick={() => onSort({ key: name, down: on ? !sort.down : name === "bytes" })}
        className={`inline-flex h-6 items-center gap-0.5 rounded-chip hover:text-text ${on ? "font-medium text-text" : ""}`}
      >
        {label}
        {on && <Icon name={sort.down ? "arrowDown" : "arrowUp"} size={12} />}
      </button>
    </th>
  );
}

export function sorted(files: readonly RunFile[], key: SortKey, down: boolean): RunFile[] {
  const sign = down ? -1 : 1;
  const value = (file: RunFile) => (key === "kind" ? KINDS.indexOf(file.kind) : file[key]);
  return [...files].sort((a, b) => {
    const [first, second] = [value(a), value(b)];
    const order =
      typeof first === "number" && typeof second === "number"
        ? first - second
        : String(first).localeCompare(String(second), "en", { numeric: true });
    return sign * order || a.path.localeCompare(b.path, "en", { numeric: true });
  });
}

const stateOf = (known: boolean, count: number, error: string | null): PanelState =>
  panelState(
    { data: known ? count : null, error },
    {
      what: "the files",
      empty: (files) =>
        files > 0
          ? null
          : { kind: "empty", title: "No files", text: "The run has not written any files yet." },
    },
  );

/** The token does not go into an address, so a file is fetched first and then handed over. */
async function save(runId: string, file: RunFile): Promise<void> {
  try {
    const blob = await readRunFile(runId, file.id);
    downloadBlob(file.path.split("/").at(-1) ?? file.path, blob);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    showToast({ kind: "failed", title: "Could not load the file.", text: error.message });
  }
}
