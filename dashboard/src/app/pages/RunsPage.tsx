import { useMemo } from "react";
import { useRunId, useRunState, useRuns } from "@/api/hooks";
import type { RunOut } from "@/api/types";
import { formatAge, formatCount, NONE } from "@/lib/format";
import { type RunColumn, sortRuns } from "@/lib/runs";
import { useUrlState } from "@/lib/urlState";
import { useThrottled } from "@/lib/useThrottled";
import { Field, Icon, Panel, type PanelState, rowClass, STATE_LOOKS, StateChip } from "@/ui";
import { PanelArea, Strip } from "../Frame";
import { useGo } from "../navigation";

/** The runs that this server knows, newest first. */
export function RunsPage() {
  const { data, error, isPending } = useRuns();
  const [filter, setFilter] = useUrlState("filter", "");
  const [sort, setSort] = useUrlState("sort", "-started");
  const followed = useFollowed();
  const runs = useMemo(
    () =>
      sortRuns(
        (data?.runs ?? []).map((run) => (run.id === followed?.id ? { ...run, ...followed } : run)),
        filter,
        sort,
      ),
    [data, followed, filter, sort],
  );
  const total = data?.total ?? 0;
  const fact =
    filter === "" ? formatCount(total) : `${formatCount(runs.length)} of ${formatCount(total)} match`;
  return (
    <>
      <Strip>
        <div className="relative max-w-full">
          <Icon name="filter" size={14} className="absolute top-1.75 left-2.5 text-t3" />
          <Field
            label="Filter runs"
            placeholder="Filter by name, state or directory"
            data-filter
            value={filter}
            onChange={setFilter}
            onRestore={() => setFilter("")}
            className="w-108 max-w-full pl-8"
          />
        </div>
        <p className="py-1 text-t3 min-[900px]:ml-auto">
          Runs of earlier servers are not listed here.{" "}
          <code className="font-mono text-t2">midstep runs ls</code> lists all.
        </p>
      </Strip>
      <PanelArea className="pt-2">
        <Panel
          title="Runs on this server"
          fact={data ? fact : undefined}
          stale={data && error ? "not up to date: the server does not answer" : null}
          className="h-full"
          bodyClassName="overflow-auto"
          state={stateOf(isPending, data ? null : (error?.message ?? null), runs.length, filter)}
        >
          <RunTable runs={runs} sort={sort} onSort={setSort} />
        </Panel>
      </PanelArea>
    </>
  );
}

/** What the stream knows better than the list, which is asked for every few seconds. */
function useFollowed(): Pick<RunOut, "id" | "state" | "step"> | null {
  const id = useRunId();
  const state = useRunState((run) => run.state);
  const step = useThrottled(
    useRunState((run) => run.step),
    500,
  );
  return useMemo(
    () => (id === null || state === undefined || step === undefined ? null : { id, state, step }),
    [id, state, step],
  );
}

function stateOf(pending: boolean, error: string | null, count: number, filter: string): PanelState {
  if (error !== null) return { kind: "error", title: "The runs could not be read", text: error };
  if (pending) return { kind: "loading" };
  if (count > 0) return { kind: "data" };
  if (filter !== "") return { kind: "empty", title: "No run matches", text: "Change or clear the filter." };
  return {
    kind: "empty",
    title: "No runs yet",
    text: (
      <>
        Start the demo with <code className="font-mono">midstep demo</code>, or attach your own loop:{" "}
        <code className="font-mono">midstep.attach(model, optimizer, loader)</code>.
      </>
    ),
  };
}

const COLUMNS: readonly { value: RunColumn; label: string; number?: boolean; width: string }[] = [
  { value: "name", label: "Run", width: "w-[30%] @max-[700px]:w-auto" },
  { value: "state", label: "State", width: "w-[14%] @max-[700px]:w-30" },
  { value: "step", label: "Progress", width: "w-[24%]" },
  { value: "directory", label: "Directory", width: "w-[22%] @max-[520px]:hidden" },
  { value: "started", label: "Age", number: true, width: "w-[10%] @max-[700px]:w-16" },
];

interface RunTableProps {
  runs: RunOut[];
  sort: string;
  onSort: (sort: string) => void;
}

function RunTable({ runs, sort, onSort }: RunTableProps) {
  const column = sort.replace("-", "");
  const down = sort.startsWith("-");
  return (
    <table className="w-full table-fixed border-collapse">
      <thead className="sticky top-0 z-10 bg-surface">
        <tr className="h-7 text-left text-label text-t3 shadow-[inset_0_-1px_0_var(--line)]">
          {COLUMNS.map(({ value, label, number, width }) => {
            const on = column === value;
            return (
              <th
                key={value}
                scope="col"
                aria-sort={on ? (down ? "descending" : "ascending") : undefined}
                className={`px-3 font-normal ${width} ${number ? "text-right" : ""}`}
              >
                <button
                  type="button"
                  onClick={() => onSort(on && !down ? `-${value}` : value)}
                  className={`inline-flex h-6 items-center gap-1 rounded-chip hover:text-text ${on ? "font-semibold text-text" : ""}`}
                >
                  {label}
                  {on && <Icon name={down ? "arrowDown" : "arrowUp"} size={11} />}
                </button>
              </th>
            );
          })}
        </tr>
      </thead>
      <tbody>
        {runs.map((run) => (
          <RunRow key={run.id} run={run} />
        ))}
      </tbody>
    </table>
  );
}

function RunRow({ run }: { run: RunOut }) {
  const go = useGo();
  const shown = useRunId();
  const open = () => go("/live", { run: run.id });
  return (
    <tr className={rowClass({ selected: run.id === shown })} onDoubleClick={open}>
      <td className="truncate px-3 font-mono" title={run.directory}>
        <button type="button" onClick={open} className="h-6 rounded-chip hover:text-accent hover:underline">
          {run.name}
        </button>
      </td>
      <td className="px-3">
        <StateChip state={run.state} />
      </td>
      <td className="px-3">
        <Progress run={run} />
      </td>
      <td className="truncate px-3 font-mono text-t2 @max-[520px]:hidden" title={run.directory}>
        {run.directory}
      </td>
      <td className="px-3 text-right text-t2">
        {run.started_at === null ? NONE : formatAge(Date.now() / 1000 - run.started_at)}
      </td>
    </tr>
  );
}

const BARS = {
  accent: "bg-accent",
  warn: "bg-warn-mark",
  bad: "bg-bad-mark",
  ok: "bg-ok-mark",
  neutral: "bg-t3",
};

function Progress({ run }: { run: RunOut }) {
  const share = run.total_steps ? Math.min(1, (run.step ?? 0) / run.total_steps) : null;
  return (
    <span className="flex items-center gap-3">
      {share !== null && (
        <span className="h-1 w-13 shrink-0 rounded-full bg-s3 @max-[620px]:hidden">
          <span
            className={`block h-full rounded-full ${BARS[STATE_LOOKS[run.state].tone]}`}
            style={{ width: `${share * 100}%` }}
          />
        </span>
      )}
      <span className="truncate">
        {formatCount(run.step)}
        {run.total_steps !== null && <span className="text-t3"> / {formatCount(run.total_steps)}</span>}
      </span>
    </span>
  );
}
