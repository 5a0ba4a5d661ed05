/** The pairs of the chosen split and cluster, a page at a time. */
import { useMemo, useRef } from "react";
import type { PairFilter } from "@/api/datasets";
import { PAGE } from "@/api/datasets";
import { fromWire, type PairLine, type PairListOut } from "@/api/types";
import { formatCount, formatFixed, plural } from "@/lib/format";
import { IconButton, Panel, type PanelState, panelState, Segmented } from "@/ui";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { exportItems } from "@/ui/export/exportItems";
import { DataTable, type TableColumn } from "@/ui/table/DataTable";
import type { SplitChoice } from "./curriculum";

const CHOICES = [
  { value: "all", label: "All" },
  { value: "train", label: "Train" },
  { value: "val", label: "Val" },
  { value: "test", label: "Test" },
] as const;

const NO_PAIRS: readonly PairLine[] = [];

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
  const pairs = list?.pairs ?? NO_PAIRS;
  const columns = useMemo(() => tableColumns(pairs), [pairs]);
  const chosen = pairs.findIndex((one) => one.pair === pair);
  const files = exportItems(
    "pairs",
    () => container.current,
    () => columnsOf(pairs),
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
        <DataTable
          label="Pairs"
          columns={columns}
          selected={chosen === -1 ? null : chosen}
          onSelect={(row) => onPair(pairs[row]?.pair as number)}
        />
        <Pages total={list?.total ?? 0} offset={filter.offset} onOffset={onOffset} />
      </div>
    </Panel>
  );
}

function tableColumns(pairs: readonly PairLine[]): TableColumn[] {
  const lineAt = (row: number) => pairs[row] as PairLine;
  return [
    {
      name: "Pair",
      cells: pairs.map(({ pair }) => pair),
      numeric: false,
      rowHeader: true,
      track: { width: "52px", least: 52 },
      render: (row) => formatCount(lineAt(row).pair),
    },
    {
      name: "Cl.",
      headTitle: "Cluster",
      cells: pairs.map(({ cluster }) => cluster),
      numeric: true,
      track: { width: "40px", least: 40 },
      render: (row) => lineAt(row).cluster,
    },
    {
      name: "Rel.",
      headTitle: "Relevance",
      cells: pairs.map(({ relevance }) => fromWire(relevance)),
      numeric: true,
      track: { width: "48px", least: 48 },
      render: (row) => formatFixed(fromWire(lineAt(row).relevance), 2),
    },
    {
      name: "Question",
      cells: pairs.map(({ question }) => question),
      numeric: false,
      track: { width: "minmax(0,1fr)", least: 92 },
      titleOf: (row) => lineAt(row).question ?? undefined,
      render: (row) =>
        lineAt(row).question ?? (
          <span className="text-t3">question {formatCount(lineAt(row).question_id)}</span>
        ),
    },
  ];
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
