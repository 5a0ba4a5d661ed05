/** All stored results, with what each holds or why it cannot be shown. */

import type { InfluenceSummary } from "@/api/types";
import { formatAge, formatCount, NONE } from "@/lib/format";
import { NOT_UP_TO_DATE } from "@/lib/messages";
import { Panel, type PanelState, panelState, rowClass } from "@/ui";

interface ResultsPanelProps {
  results: readonly InfluenceSummary[] | null;
  error: string | null;
  shown: string | null;
  onOpen: (id: string) => void;
}

export default function ResultsPanel({ results, error, shown, onOpen }: ResultsPanelProps) {
  return (
    <Panel
      title="Stored results"
      fact={results ? formatCount(results.length) : undefined}
      stale={results && error ? NOT_UP_TO_DATE : null}
      className="h-full"
      bodyClassName="overflow-auto"
      state={stateOf(results, error)}
    >
      <table className="w-full table-fixed border-collapse">
        <thead className="sticky top-0 z-10 bg-surface">
          <tr className="h-7 text-left text-label text-t3 shadow-[inset_0_-1px_0_var(--line)]">
            {HEADS.map(({ name, look }) => (
              <th key={name} scope="col" className={`px-3 font-normal ${look}`}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {(results ?? []).map((one) => (
            <Row key={one.id} one={one} selected={one.id === shown} onOpen={onOpen} />
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

const HEADS = [
  { name: "Name", look: "w-[20%]" },
  { name: "Folder", look: "w-[24%] @max-[700px]:hidden" },
  { name: "Step", look: "w-[9%] text-right" },
  { name: "Update", look: "w-[9%] text-right" },
  { name: "Evaluated", look: "w-[9%] text-right" },
  { name: "Batches", look: "" },
  { name: "Age", look: "w-[7%] text-right" },
];

interface RowProps {
  one: InfluenceSummary;
  selected: boolean;
  onOpen: (id: string) => void;
}

function Row({ one, selected, onOpen }: RowProps) {
  const usable = one.state === "finished";
  const open = () => usable && onOpen(one.id);
  const age = formatAge(Date.now() / 1000 - one.made_at);
  return (
    <tr className={rowClass({ selected, excluded: !usable })} onDoubleClick={open}>
      <td className="truncate px-3">
        {usable ? (
          <button type="button" onClick={open} className="h-6 rounded-chip hover:text-accent hover:underline">
            {one.name}
          </button>
        ) : (
          one.name
        )}
      </td>
      <td className="truncate px-3 font-mono @max-[700px]:hidden" title={one.id}>
        {one.id}
      </td>
      {usable ? (
        <>
          <td className="px-3 text-right">{one.step === null ? NONE : formatCount(one.step)}</td>
          <td className="px-3 text-right">{formatCount(one.update_sequences)}</td>
          <td className="px-3 text-right">{formatCount(one.evaluated_sequences)}</td>
          <td className="truncate px-3 text-t2">{one.requests.join(", ")}</td>
        </>
      ) : (
        <td colSpan={4} className="truncate px-3" title={one.problem ?? undefined}>
          <span className={one.state === "damaged" ? "text-bad" : "text-warn"}>
            {one.state === "damaged" ? "Damaged" : "Unfinished"}:
          </span>{" "}
          {one.problem}
        </td>
      )}
      <td className="px-3 text-right text-t2">{age}</td>
    </tr>
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
