/** All stored results, with what each holds or why it cannot be shown. */

import { useMemo } from "react";
import type { InfluenceSummary } from "@/api/types";
import { formatAge, formatCount } from "@/lib/format";
import { NOT_UP_TO_DATE } from "@/lib/messages";
import { Panel, type PanelState, panelState } from "@/ui";
import { DataTable, type TableColumn } from "@/ui/table/DataTable";

const NOTHING: readonly InfluenceSummary[] = [];

interface ResultsPanelProps {
  results: readonly InfluenceSummary[] | null;
  error: string | null;
  shown: string | null;
  onOpen: (id: string) => void;
}

export default function ResultsPanel({ results, error, shown, onOpen }: ResultsPanelProps) {
  const listed = results ?? NOTHING;
  const columns = useMemo(() => columnsOf(listed, onOpen), [listed, onOpen]);
  return (
    <Panel
      title="Stored results"
      fact={results ? formatCount(results.length) : undefined}
      stale={results && error ? NOT_UP_TO_DATE : null}
      className="h-full"
      state={stateOf(results, error)}
    >
      <DataTable
        label="Stored results"
        columns={columns}
        lookOf={(row) => ({ selected: listed[row]?.id === shown, excluded: !isUsable(listed[row]) })}
        spanOf={(row) => problemOf(listed[row])}
        keyOf={(row) => String(listed[row]?.id)}
        onOpen={(row) => isUsable(listed[row]) && onOpen(String(listed[row]?.id))}
      />
    </Panel>
  );
}

const isUsable = (one: InfluenceSummary | undefined) => one?.state === "finished";

/** Why a result cannot be opened, in place of its figures. */
function problemOf(one: InfluenceSummary | undefined) {
  if (one === undefined || isUsable(one)) return null;
  const isDamaged = one.state === "damaged";
  const content = (
    <>
      <span className={isDamaged ? "text-bad" : "text-warn"}>{isDamaged ? "Damaged" : "Unfinished"}:</span>{" "}
      {one.problem}
    </>
  );
  return { from: 2, to: 6, content, title: one.problem ?? undefined };
}

function columnsOf(results: readonly InfluenceSummary[], onOpen: (id: string) => void): TableColumn[] {
  const count = (name: string, title: string, cells: (number | null)[]): TableColumn => ({
    name,
    title,
    numeric: true,
    cells,
    track: { width: "minmax(64px,0.45fr)", least: 64 },
  });
  return [
    {
      name: "name",
      title: "Name",
      numeric: false,
      cells: results.map(({ name }) => name),
      track: { width: "minmax(120px,1fr)", least: 120 },
      look: "",
      render: (row) => <Name one={results[row] as InfluenceSummary} onOpen={onOpen} />,
    },
    {
      name: "folder",
      title: "Folder",
      numeric: false,
      cells: results.map(({ id }) => id),
      track: { width: "minmax(96px,1.2fr)", least: 96 },
      look: "font-mono",
      titleOf: (row) => results[row]?.id,
    },
    count(
      "step",
      "Step",
      results.map(({ step }) => step),
    ),
    count(
      "update",
      "Update",
      results.map(({ update_sequences }) => update_sequences),
    ),
    count(
      "evaluated",
      "Evaluated",
      results.map(({ evaluated_sequences }) => evaluated_sequences),
    ),
    {
      name: "batches",
      title: "Batches",
      numeric: false,
      cells: results.map(({ requests }) => requests.join(", ")),
      track: { width: "minmax(80px,1.3fr)", least: 80 },
      look: "text-t2",
    },
    {
      ...count(
        "age",
        "Age",
        results.map(({ made_at }) => made_at),
      ),
      look: "text-t2",
      render: (row) => formatAge(Date.now() / 1000 - (results[row]?.made_at ?? 0)),
    },
  ];
}

function Name({ one, onOpen }: { one: InfluenceSummary; onOpen: (id: string) => void }) {
  if (!isUsable(one)) return one.name;
  return (
    <button
      type="button"
      onClick={() => onOpen(one.id)}
      className="h-6 rounded-chip hover:text-accent hover:underline"
    >
      {one.name}
    </button>
  );
}

function stateOf(data: readonly InfluenceSummary[] | null, error: string | null): PanelState {
  const empty = ({ length }: readonly InfluenceSummary[]) => (length > 0 ? null : noResults());
  return panelState({ data, error }, { what: "the results", empty });
}

function noResults(): PanelState {
  return {
    kind: "empty",
    title: "No results yet",
    text: (
      <>
        To see which training sequences changed which answers, run a plan with{" "}
        <code className="font-mono">midstep influence run plan.yaml</code>, or train and study the example
        with <code className="font-mono">python examples/rl/arithmetic_grpo.py</code>. Results under{" "}
        <code className="font-mono">outputs/influence</code> beside the runs of this server are shown here.
        For the samples of one batch, pause a run and use Influence in the Batch panel of the Live page.
      </>
    ),
  };
}
