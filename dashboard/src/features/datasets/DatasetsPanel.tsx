/** The datasets in the folders that the server was given, or how to come by one. */

import type { DatasetListOut, DatasetSummary } from "@/api/types";
import { formatAge, formatBytes, formatCount, plural } from "@/lib/format";
import { NOT_UP_TO_DATE } from "@/lib/messages";
import { Panel, type PanelState, panelState } from "@/ui";

interface DatasetsPanelProps {
  list: DatasetListOut | null;
  error: string | null;
  shown: string | null;
  onOpen: (id: string) => void;
}

export default function DatasetsPanel({ list, error, shown, onOpen }: DatasetsPanelProps) {
  return (
    <Panel
      title="Datasets"
      fact={list ? formatCount(list.total) : undefined}
      stale={list && error ? NOT_UP_TO_DATE : null}
      className="h-full"
      bodyClassName="overflow-auto"
      state={stateOf(list, error)}
    >
      <ul className="pb-2">
        {(list?.datasets ?? []).map((one) => (
          <Entry key={one.id} one={one} selected={one.id === shown} onOpen={onOpen} />
        ))}
      </ul>
      <p className="px-3 pb-2 text-t3">
        Files are not compared with their hashes here:{" "}
        <code className="font-mono">midstep data validate</code> does it.
      </p>
    </Panel>
  );
}

interface EntryProps {
  one: DatasetSummary;
  selected: boolean;
  onOpen: (id: string) => void;
}

function Entry({ one, selected, onOpen }: EntryProps) {
  if (one.counts === null)
    return (
      <li className="px-3 py-1 text-t3" title={one.problem ?? undefined}>
        <p className="truncate font-mono">{one.name}</p>
        <p className="line-clamp-3 break-words">
          <span className="text-bad">Damaged:</span> {one.problem}
        </p>
      </li>
    );
  const ground = selected ? "bg-accent-soft shadow-[inset_2px_0_0_var(--accent)]" : "hover:bg-s2";
  return (
    <li>
      <button
        type="button"
        aria-current={selected ? "true" : undefined}
        onClick={() => onOpen(one.id)}
        className={`block w-full px-3 py-1 text-left -outline-offset-2! ${ground}`}
      >
        <span className="flex items-baseline gap-2">
          <span
            className={`min-w-0 flex-1 truncate font-mono ${selected ? "font-medium" : ""}`}
            title={one.id}
          >
            {one.name}
          </span>
          <span className="text-t3">{formatAge(Date.now() / 1000 - one.made_at)}</span>
        </span>
        <span className="block truncate text-t3">
          {plural(one.counts.pairs, "pair")} · {plural(one.counts.clusters, "cluster")} · {one.form},{" "}
          {formatBytes(one.size_bytes)}
        </span>
      </button>
    </li>
  );
}

function stateOf(data: DatasetListOut | null, error: string | null): PanelState {
  const empty = (list: DatasetListOut) => (list.datasets.length > 0 ? null : noDatasets(list));
  return panelState({ data, error }, { what: "the datasets", empty });
}

function noDatasets(list: DatasetListOut): PanelState {
  const named = list.roots > 0;
  return {
    kind: "empty",
    title: named ? "No datasets yet" : "No data folder",
    text: (
      <>
        {named
          ? `The ${list.roots === 1 ? "data folder holds" : "data folders hold"} no dataset. `
          : "Start the server with --data FOLDER. "}
        Build one from a table of questions and sources with{" "}
        <code className="font-mono">midstep data build pairs.csv --out data/mine</code>
        {named ? (
          ". It is shown here as soon as it is finished."
        ) : (
          <>
            , then pass its folder: <code className="font-mono">midstep serve outputs --data data/</code>.
          </>
        )}
      </>
    ),
  };
}
