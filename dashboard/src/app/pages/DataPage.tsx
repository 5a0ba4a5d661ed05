/** Data: embedding datasets with their clusters, pairs and negatives, the curriculum over epochs, and the audit. */
import { lazy, type ReactNode } from "react";
import {
  type DatasetKey,
  EPOCHS,
  useCurriculum,
  useDataset,
  useDatasetAudit,
  useDatasetMap,
  useDatasets,
  usePair,
  usePairs,
} from "@/api/datasets";
import type { DatasetOut, DatasetSummary } from "@/api/types";
import { SPLITS, type SplitChoice, sizeOf, wholeNumber } from "@/features/datasets/curriculum";
import { useAction } from "@/lib/actions";
import { formatBytes, formatCount, NONE, plural } from "@/lib/format";
import { useUrlChoice, useUrlState } from "@/lib/urlState";
import { Icon, Panel, PanelSlot } from "@/ui";
import { PanelArea, Pill, Strip, TabRow } from "../Frame";

const DatasetsPanel = lazy(() => import("@/features/datasets/DatasetsPanel"));
const MapPanel = lazy(() => import("@/features/datasets/MapPanel"));
const PairsPanel = lazy(() => import("@/features/datasets/PairsPanel"));
const PairPanel = lazy(() => import("@/features/datasets/PairPanel"));
const CurriculumPanels = lazy(() => import("@/features/datasets/CurriculumPanels"));
const AuditPanel = lazy(() => import("@/features/datasets/AuditPanel"));
const NegativesPanel = lazy(() => import("@/features/datasets/NegativesPanel"));

const TABS = ["pairs", "curriculum", "audit"] as const;
const TAB_NAMES = [
  { value: "pairs", label: "Pairs" },
  { value: "curriculum", label: "Curriculum" },
  { value: "audit", label: "Audit" },
] as const;

export function DataPage() {
  const list = useDatasets();
  const [datasetId, setDatasetId] = useUrlState("dataset", "");
  const [tab, setTab] = useUrlChoice("tab", TABS);
  const view = useView();
  const shown = pickOf(list.data?.datasets ?? null, datasetId);
  const { data: dataset, error } = useDataset(shown);
  const open = (id: string) => {
    setDatasetId(id);
    view.reset();
  };
  const datasets = (
    <PanelSlot title="Datasets">
      <DatasetsPanel
        list={list.data ?? null}
        error={list.error?.message ?? null}
        shown={shown?.id ?? null}
        onOpen={open}
      />
    </PanelSlot>
  );
  return (
    <>
      <Strip>
        <Facts shown={shown} dataset={dataset ?? null} />
      </Strip>
      <TabRow
        label="Views of the dataset"
        value={tab}
        tabs={TAB_NAMES}
        onChange={setTab}
        pill={<Chosen dataset={dataset ?? null} cluster={view.cluster} onClear={() => view.choose(null)} />}
      />
      <PanelArea tab={tab}>
        {shown === null ? (
          datasets
        ) : (
          <div className="grid h-full min-h-[560px] grid-cols-[336px_minmax(0,1fr)] gap-2 max-[1199px]:h-auto max-[1199px]:grid-cols-1">
            <SideColumn
              datasets={datasets}
              pairs={tab === "pairs" && dataset ? <Pairs of={shown} view={view} /> : null}
            />
            {dataset === undefined ? (
              <Waiting error={error?.message ?? null} />
            ) : (
              <TabView key={shown.id} {...{ tab, dataset, view }} of={shown} onTab={setTab} />
            )}
          </div>
        )}
      </PanelArea>
    </>
  );
}

/** The requested dataset if it can be shown, else the newest that can. */
function pickOf(datasets: readonly DatasetSummary[] | null, datasetId: string): DatasetSummary | null {
  const usable = (datasets ?? []).filter(({ state }) => state === "ready");
  return usable.find(({ id }) => id === datasetId) ?? usable[0] ?? null;
}

interface View {
  split: SplitChoice;
  cluster: number | null;
  offset: number;
  pair: number | null;
  /** Index of the epoch that is read; the address counts from 1. */
  epoch: number;
  /** A cluster, and one of its pairs or the first of them; null for all clusters, which leaves the pair. */
  choose: (cluster: number | null, pair?: number) => void;
  setSplit: (split: SplitChoice) => void;
  setOffset: (offset: number) => void;
  setPair: (pair: number) => void;
  setEpoch: (epoch: number) => void;
  reset: () => void;
}

/** What is chosen, all of it in the address. */
function useView(): View {
  const [split, setSplit] = useUrlChoice("split", SPLITS);
  const [cluster, setCluster] = useUrlState("cluster", "");
  const [offset, setOffset] = useUrlState("from", "0");
  const [pair, setPair] = useUrlState("pair", "");
  const [epoch, setEpoch] = useUrlState("epoch", "1");
  return {
    split,
    cluster: wholeNumber(cluster),
    offset: wholeNumber(offset) ?? 0,
    pair: wholeNumber(pair),
    epoch: Math.min(Math.max((wholeNumber(epoch) ?? 1) - 1, 0), EPOCHS - 1),
    choose: (next, member) => {
      setCluster(next === null ? "" : String(next));
      setOffset("0");
      if (next !== null) setPair(member === undefined ? "" : String(member));
    },
    setSplit: (next) => {
      setSplit(next);
      setOffset("0");
    },
    setOffset: (next) => setOffset(String(next)),
    setPair: (next) => setPair(String(next)),
    setEpoch: (next) => setEpoch(String(next + 1)),
    reset: () => {
      for (const clear of [setCluster, setPair]) clear("");
      setOffset("0");
    },
  };
}

function Facts({ shown, dataset }: { shown: DatasetSummary | null; dataset: DatasetOut | null }) {
  if (shown?.counts == null)
    return (
      <p className="text-t3">Questions, the sources that answer them, and the vectors that steer a model.</p>
    );
  const { counts } = shown;
  const splits = dataset
    ? `${formatCount(dataset.splits.train ?? 0)} / ${formatCount(dataset.splits.val ?? 0)} / ${formatCount(dataset.splits.test ?? 0)}`
    : NONE;
  const facts = [
    ["Train / val / test", splits],
    ["Questions", formatCount(counts.questions)],
    ["Sources", formatCount(counts.sources)],
    ["Keywords", formatCount(counts.keywords)],
    ["Width", formatCount(counts.dimension)],
    ["Negatives", formatCount(counts.negatives)],
    ["Encoder", dataset?.encoder ?? NONE],
    ["Form", `${shown.form}, ${formatBytes(shown.size_bytes)}`],
  ];
  return (
    <>
      <span className="pr-2 font-mono text-bar font-medium">{shown.name}</span>
      {facts.map(([name, value]) => (
        <span key={name} className="px-1 text-t3">
          {name} <span className="font-medium text-text">{value}</span>
        </span>
      ))}
    </>
  );
}

interface ChosenProps {
  dataset: DatasetOut | null;
  cluster: number | null;
  onClear: () => void;
}

/** The chosen cluster, with the way out of it. */
function Chosen({ dataset, cluster, onClear }: ChosenProps) {
  useAction({
    id: "clear-cluster",
    title: "All clusters",
    group: "View",
    keys: "Esc",
    disabledReason: cluster === null ? "No cluster is chosen" : null,
    run: onClear,
  });
  if (cluster === null || dataset === null) return null;
  const summary = dataset.clusters.find((one) => one.cluster === cluster);
  return (
    <Pill
      tone="accent"
      glyph={<Icon name="filter" size={14} />}
      title={`Cluster ${cluster}`}
      text={summary ? plural(sizeOf(summary), "pair") : "not in this dataset"}
      action={{ label: "All clusters", run: onClear }}
    />
  );
}

/** The list on the left, and the pairs below it if their tab is open. */
function SideColumn({ datasets, pairs }: { datasets: ReactNode; pairs: ReactNode }) {
  if (pairs === null) return <div className="min-h-0 max-[1199px]:h-60">{datasets}</div>;
  return (
    <div className="grid min-h-0 grid-rows-[minmax(88px,auto)_minmax(0,1fr)] gap-2 max-[1199px]:h-160">
      <div className="max-h-50 min-h-0">{datasets}</div>
      <div className="min-h-0">{pairs}</div>
    </div>
  );
}

function Waiting({ error }: { error: string | null }) {
  const state =
    error === null
      ? ({ kind: "loading" } as const)
      : ({ kind: "error", title: "Could not load this dataset", text: error } as const);
  return <Panel title="Dataset" className="h-full" state={state} />;
}

function Pairs({ of, view }: { of: DatasetKey; view: View }) {
  const filter = {
    split: view.split === "all" ? null : view.split,
    cluster: view.cluster,
    offset: view.offset,
  };
  const { data, error, isPlaceholderData } = usePairs(of, filter);
  return (
    <PanelSlot title="Pairs">
      <PairsPanel
        list={data ?? null}
        error={error?.message ?? null}
        old={isPlaceholderData}
        filter={filter}
        split={view.split}
        onSplit={view.setSplit}
        onOffset={view.setOffset}
        pair={view.pair ?? data?.pairs[0]?.pair ?? null}
        onPair={view.setPair}
      />
    </PanelSlot>
  );
}

interface TabViewProps {
  tab: (typeof TABS)[number];
  of: DatasetKey;
  dataset: DatasetOut;
  view: View;
  onTab: (tab: (typeof TABS)[number]) => void;
}

function TabView(props: TabViewProps) {
  if (props.tab === "curriculum") return <CurriculumView {...props} />;
  return props.tab === "audit" ? <AuditView {...props} /> : <PairsView {...props} />;
}

function PairsView({ of, dataset, view }: TabViewProps) {
  const map = useDatasetMap(of);
  const listed = usePairs(of, {
    split: view.split === "all" ? null : view.split,
    cluster: view.cluster,
    offset: view.offset,
  });
  const number = view.pair ?? listed.data?.pairs[0]?.pair ?? null;
  const pair = usePair(of, number);
  return (
    <div className="grid min-h-0 grid-cols-[minmax(0,1fr)_minmax(0,1.15fr)] gap-2 max-[1199px]:grid-cols-1 max-[1199px]:grid-rows-[420px_640px]">
      <PanelSlot title="Clusters">
        <MapPanel
          dataset={dataset}
          map={map.data ?? null}
          error={map.error?.message ?? null}
          chosen={view.cluster}
          onChoose={view.choose}
          pair={number}
        />
      </PanelSlot>
      <PanelSlot title="Pair">
        <PairPanel
          pair={pair.data ?? null}
          error={pair.error?.message ?? null}
          old={pair.isPlaceholderData}
        />
      </PanelSlot>
    </div>
  );
}

function CurriculumView({ of, view }: TabViewProps) {
  const { data, error } = useCurriculum(of);
  return (
    <div className="min-h-0 max-[1199px]:h-160">
      <PanelSlot title="Curriculum">
        <CurriculumPanels
          curriculum={data ?? null}
          error={error?.message ?? null}
          epoch={view.epoch}
          onEpoch={view.setEpoch}
        />
      </PanelSlot>
    </div>
  );
}

function AuditView({ of, dataset, view, onTab }: TabViewProps) {
  const { data, error } = useDatasetAudit(of);
  const shared = { answer: data ?? null, error: error?.message ?? null };
  const show = (pair: number) => {
    view.setPair(pair);
    onTab("pairs");
  };
  return (
    <div className="grid min-h-0 grid-cols-2 gap-2 max-[1199px]:grid-cols-1 max-[1199px]:grid-rows-[420px_420px]">
      <PanelSlot title="Leaks between splits">
        <AuditPanel {...shared} />
      </PanelSlot>
      <PanelSlot title="Negatives">
        <NegativesPanel {...shared} dataset={dataset} onPair={show} />
      </PanelSlot>
    </div>
  );
}
