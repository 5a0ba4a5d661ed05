/** The figures that a run drew, newest first. */
import { useEffect, useState } from "react";
import { readRunFile, useRunFiles } from "@/api/runs";
import type { RunFile } from "@/api/types";
import { formatBytes, plural } from "@/lib/format";
import { Dialog, Panel, type PanelState, panelState } from "@/ui";

interface FiguresPanelProps {
  runId: string;
  live: boolean;
}

/** More pictures than anybody looks at; the others are among the files. */
const MAX_SHOWN = 60;

export default function FiguresPanel({ runId, live }: FiguresPanelProps) {
  const { data, error } = useRunFiles(runId, live);
  const [opened, setOpened] = useState<RunFile | null>(null);
  const all = (data?.files ?? [])
    .filter(({ kind, path }) => kind === "figure" && /\.(png|svg|jpe?g)$/i.test(path))
    .sort((a, b) => b.modified_at - a.modified_at);
  const figures = all.slice(0, MAX_SHOWN);
  const fact =
    all.length > figures.length ? `newest ${MAX_SHOWN} of ${all.length}` : plural(all.length, "figure");
  return (
    <Panel
      title="Figures"
      fact={data ? fact : undefined}
      className="h-full"
      bodyClassName="overflow-auto"
      state={stateOf(data !== undefined, figures.length, error?.message ?? null)}
    >
      <ul className="grid grid-cols-[repeat(auto-fill,minmax(220px,1fr))] gap-3 p-3 pt-1">
        {figures.map((file) => (
          <li key={file.id}>
            <button
              type="button"
              onClick={() => setOpened(file)}
              className="flex w-full flex-col gap-1 rounded-control p-1 text-left hover:bg-s2"
            >
              <Figure runId={runId} file={file} className="h-36 w-full" />
              <span className="w-full truncate font-mono text-label text-t2" title={file.path}>
                {file.path.split("/").at(-1)}
              </span>
            </button>
          </li>
        ))}
      </ul>
      {opened && (
        <Dialog title={opened.path} onClose={() => setOpened(null)} className="p-4">
          <Figure runId={runId} file={opened} className="mt-2 max-h-[75vh] max-w-[85vw]" />
          <p className="mt-1 text-t3">{formatBytes(opened.bytes)}</p>
        </Dialog>
      )}
    </Panel>
  );
}

interface FigureProps {
  runId: string;
  file: RunFile;
  className: string;
}

/** A picture of the server as an address of this page's own; an image element alone would carry no token. */
function Figure({ runId, file, className }: FigureProps) {
  const [address, setAddress] = useState<string | null>(null);
  const { id, modified_at, path } = file;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a figure drawn anew is another picture under the same id
  useEffect(() => {
    const closing = new AbortController();
    let objectUrl: string | null = null;
    readRunFile(runId, id, closing.signal)
      .then((blob) => {
        objectUrl = URL.createObjectURL(blob);
        setAddress(objectUrl);
      })
      // Its place stays empty; the file list says whether it is still there.
      .catch(() => setAddress(null));
    return () => {
      closing.abort();
      if (objectUrl !== null) URL.revokeObjectURL(objectUrl);
    };
  }, [runId, id, modified_at]);
  if (address === null) return <span className={`block rounded-mark bg-s2 ${className}`} />;
  return <img src={address} alt={path} className={`rounded-mark bg-[#fff] object-contain ${className}`} />;
}

const NO_FIGURES: PanelState = {
  kind: "empty",
  title: "No figures",
  text: "Figures that your loop saves in figures/ of the run directory appear here.",
};

const stateOf = (known: boolean, count: number, error: string | null): PanelState =>
  panelState(
    { data: known ? count : null, error },
    { what: "the figures", empty: (figures) => (figures > 0 ? null : NO_FIGURES) },
  );
