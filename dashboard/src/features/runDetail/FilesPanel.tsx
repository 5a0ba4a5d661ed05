/** The files of a run: what they are, how large, and whether they go with it; and the profile among them. */
import { useMemo, useState } from "react";
import { ApiError } from "@/api/client";
import { readRunFile, useRunFiles } from "@/api/runs";
import type { FileKind, RunFile } from "@/api/types";
import { downloadBlob } from "@/lib/download";
import { formatAge, formatBytes, plural } from "@/lib/format";
import { showToast } from "@/lib/toasts";
import { IconButton, Panel, type PanelState, panelState } from "@/ui";
import { DataTable, type Sort, type TableColumn } from "@/ui/table/DataTable";
import { ProfilePanel } from "./ProfilePanel";

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

export default function FilesView({ runId, live, now }: FilesPanelProps) {
  return (
    <div className="flex h-full min-h-0 flex-col gap-2">
      <FilesPanel {...{ runId, live, now }} />
      <ProfilePanel {...{ runId, live }} />
    </div>
  );
}

function FilesPanel({ runId, live, now }: FilesPanelProps) {
  const { data, error } = useRunFiles(runId, live);
  const [sort, setSort] = useState<Sort>({ column: "kind", direction: "ascending" });
  const files = useMemo(() => byPath(data?.files ?? []), [data]);
  const columns = useMemo(() => columnsOf(files, now), [files, now]);
  const foreign = data && data.foreign > 0 ? `, ${plural(data.foreign, "file")} not written by midstep` : "";
  return (
    <Panel
      title="Files"
      fact={data ? `${plural(data.files.length, "file")}, ${formatBytes(data.bytes)}${foreign}` : undefined}
      className="min-h-0 flex-1"
      state={stateOf(data !== undefined, files.length, error?.message ?? null)}
    >
      <DataTable
        label="Files of the run"
        columns={columns}
        sort={sort}
        onSort={setSort}
        keyOf={(row) => String(files[row]?.id)}
        actions={{
          label: "Save",
          width: 32,
          render: (row) => {
            const file = files[row] as RunFile;
            return (
              <IconButton
                icon="download"
                label={`Save ${file.path}`}
                onClick={() => void save(runId, file)}
              />
            );
          },
        }}
      />
    </Panel>
  );
}

/** By path, which is the order of files that are equal in the sorted column. */
function byPath(files: readonly RunFile[]): RunFile[] {
  return [...files].sort((a, b) => a.path.localeCompare(b.path, "en", { numeric: true }));
}

function columnsOf(files: readonly RunFile[], now: number): TableColumn[] {
  const narrow = { width: "96px", least: 96 };
  return [
    {
      name: "path",
      title: "File",
      numeric: false,
      cells: files.map(({ path }) => path),
      titleOf: (row) => files[row]?.path,
      track: { width: "minmax(160px,1fr)", least: 160 },
      look: "font-mono",
    },
    {
      name: "kind",
      title: "Kind",
      numeric: false,
      // Sorted by what matters most, not by the alphabet.
      cells: files.map(({ kind }) => KINDS.indexOf(kind)),
      track: { width: "minmax(96px,0.5fr)", least: 96 },
      look: "text-t2",
      render: (row) => (
        <>
          {files[row]?.kind}
          {!files[row]?.own && <span className="text-warn"> · not written by midstep</span>}
        </>
      ),
    },
    {
      name: "bytes",
      title: "Size",
      numeric: true,
      cells: files.map(({ bytes }) => bytes),
      track: narrow,
      render: (row) => formatBytes(files[row]?.bytes ?? 0),
    },
    {
      name: "modified_at",
      title: "Changed",
      numeric: true,
      firstSort: "ascending",
      cells: files.map(({ modified_at }) => modified_at),
      track: narrow,
      look: "text-t2",
      render: (row) => formatAge(Math.max(0, now - (files[row]?.modified_at ?? now))),
    },
  ];
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
