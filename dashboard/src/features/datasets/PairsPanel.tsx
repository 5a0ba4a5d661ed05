/** The pairs of the chosen split and cluster, a page at a time. */
import { type KeyboardEvent, useRef } from "react";
import type { PairFilter } from "@/api/datasets";
import { PAGE } from "@/api/datasets";
import { fromWire, type PairLine, type PairListOut } from "@/api/types";
import { formatCount, formatFixed, plural } from "@/lib/format";
import { IconButton, Panel, type PanelState, panelState, rowClass, Segmented } from "@/ui";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { exportItems } from "@/ui/export/exportItems";
import { rowAfter, type SplitChoice } from "./curriculum";

const CHOICES = [
  { value: "all", label: "All" },
  { value: "train", label: "Train" },
  { value: "val", label: "Val" },
  { value: "test", label: "Test" },
] as const;

interface PairsPanelProps {
  list: PairListOut | null;
  error: string | null;
  /** Still those of the filter before. */
  old: boolean;
  filter: PairFilter;
  split: SplitChoice;
  onSplit: (split: SplitChoice) => void;
  onOffset: (offset: number) => void;
  pair: number | null;
  onPair: (pair: number) => void;
}

export default function PairsPanel(props: PairsPanelProps) {
  const { list, error, old, filter, split, onSplit, onOffset, pair, onPair } = props;
  const container = useRef<HTMLDivElement>(null);
  const files = exportItems(
    "pairs",
    () => container.current,
    () => columnsOf(list?.pairs ?? []),
    () => list,
  );
  return (
    <Panel
      title="Pairs"
      fact={list ? formatCount(list.total) : undefined}
      tools={
        <>
          <Segmented label="Split" value={split} choices={CHOICES} onChange={onSplit} />
          <ExportMenu subject="pairs" items={files} />
        </>
      }
      className="h-full"
      state={stateOf(list, error)}
    >
      <div ref={container} className={`flex min-h-0 flex-1 flex-col ${old ? "stale" : ""}`}>
        <PairTable pairs={list?.pairs ?? []} {...{ pair, onPair }} />
        <Pages total={list?.total ?? 0} offset={filter.offset} onOffset={onOffset} />
      </div>
    </Panel>
  );
}

interface PairTableProps {
  pairs: readonly PairLine[];
  pair: number | null;
  onPair: (pair: number) => void;
}

function PairTable({ pairs, pair, onPair }: PairTableProps) {
  const body = useRef<HTMLTableSectionElement>(null);
  // One stop for Tab, however many rows: the chosen one, or the first; arrows do the rest.
  const stop = Math.max(
    pairs.findIndex((one) => one.pair === pair),
    0,
  );
  const move = (event: KeyboardEvent) => {
    const next = rowAfter(event, stop, pairs.length);
    if (next === null) return;
    event.preventDefault();
    onPair(pairs[next]?.pair as number);
    body.current?.rows[next]?.querySelector("button")?.focus();
  };
  const head = "px-2 font-normal";
  return (
    <div className="min-h-0 flex-1 overflow-auto">
      <table className="w-full table-fixed border-collapse" onKeyDown={move}>
        <thead className="sticky top-0 z-10 bg-surface">
          <tr className="h-6 text-left text-label text-t3 shadow-[inset_0_-1px_0_var(--line)]">
            <th scope="col" className={`${head} w-14 pl-3`}>
              Pair
            </th>
            <th scope="col" className={`${head} w-11 text-right`} title="Cluster">
              Cl.
            </th>
            <th scope="col" className={`${head} w-12 text-right`} title="Relevance">
              Rel.
            </th>
            <th scope="col" className={`${head} pr-3`}>
              Question
            </th>
          </tr>
        </thead>
        <tbody ref={body}>
          {pairs.map((one, at) => (
            <tr
              key={one.pair}
              onClick={() => onPair(one.pair)}
              className={rowClass({ selected: one.pair === pair })}
            >
              <td className="pr-2 pl-3">
                <button
                  type="button"
                  tabIndex={at === stop ? 0 : -1}
                  aria-pressed={one.pair === pair}
                  onClick={() => onPair(one.pair)}
                  className="h-6 rounded-chip hover:text-accent"
                >
                  {formatCount(one.pair)}
                </button>
              </td>
              <td className="px-2 text-right">{one.cluster}</td>
              <td className="px-2 text-right">{formatFixed(fromWire(one.relevance), 2)}</td>
              <td className="truncate px-2 pr-3" title={one.question ?? undefined}>
                {one.question ?? <span className="text-t3">question {formatCount(one.question_id)}</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface PagesProps {
  total: number;
  offset: number;
  onOffset: (offset: number) => void;
}

function Pages({ total, offset, onOffset }: PagesProps) {
  if (total <= PAGE && offset === 0) return null;
  const last = Math.min(offset + PAGE, total);
  return (
    <div className="flex h-8 shrink-0 items-center gap-1 border-t border-line px-3 text-t3">
      <span className="flex-1">
        {formatCount(Math.min(offset + 1, total))} to {formatCount(last)} of {plural(total, "pair")}
      </span>
      <IconButton
        icon="arrowUp"
        label="Earlier pairs"
        disabledReason={offset === 0 ? "These are the first" : null}
        onClick={() => onOffset(Math.max(0, offset - PAGE))}
      />
      <IconButton
        icon="arrowDown"
        label="Later pairs"
        disabledReason={last >= total ? "These are the last" : null}
        onClick={() => onOffset(offset + PAGE)}
      />
    </div>
  );
}

const stateOf = (list: PairListOut | null, error: string | null): PanelState =>
  panelState(
    { data: list, error },
    {
      what: "the pairs",
      empty: ({ total }) =>
        total > 0
          ? null
          : { kind: "empty", title: "No pair matches", text: "Choose another split, or clear the cluster." },
    },
  );

function columnsOf(pairs: readonly PairLine[]) {
  return [
    { name: "pair", cells: pairs.map(({ pair }) => pair) },
    { name: "split", cells: pairs.map(({ split }) => split) },
    { name: "cluster", cells: pairs.map(({ cluster }) => cluster) },
    { name: "relevance", cells: pairs.map(({ relevance }) => fromWire(relevance)) },
    { name: "distance", cells: pairs.map(({ distance }) => fromWire(distance)) },
    { name: "question_id", cells: pairs.map(({ question_id }) => question_id) },
    { name: "question", cells: pairs.map(({ question }) => question) },
  ];
}
