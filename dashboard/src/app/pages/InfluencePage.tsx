/** Influence: which sequences of an update moved which answers, by how much, and was the prediction right. */
import { lazy, useMemo } from "react";
import {
  type ResultKey,
  useInfluenceBatch,
  useInfluenceKernel,
  useInfluenceList,
  useInfluenceResult,
} from "@/api/influence";
import { fromWire, type InfluenceOut, type InfluenceSummary } from "@/api/types";
import {
  contributionsTo,
  type InfluenceData,
  readAdvantages,
  writeAdvantages,
} from "@/features/influence/influenceData";
import { formatAge, formatCount, formatRate, plural } from "@/lib/format";
import { useUrlChoice, useUrlState } from "@/lib/urlState";
import { Button, Icon, Menu, Panel, PanelSlot } from "@/ui";
import { PanelArea, Pill, Strip, TabRow } from "../Frame";

const KernelPanel = lazy(() => import("@/features/influence/KernelPanel"));
const ContributorsPanel = lazy(() => import("@/features/influence/ContributorsPanel"));
const ValidationPanel = lazy(() => import("@/features/influence/ValidationPanel"));
const CoveragePanel = lazy(() => import("@/features/influence/CoveragePanel"));
const WhatIfPanel = lazy(() => import("@/features/influence/WhatIfPanel"));
const ResultsPanel = lazy(() => import("@/features/influence/ResultsPanel"));

const TABS = ["evaluation", "update", "results"] as const;

export function InfluencePage() {
  const list = useInfluenceList();
  const [resultId, setResultId] = useUrlState("result", "");
  const [tab, setTab] = useUrlChoice("tab", TABS);
  const results = list.data?.results ?? null;
  const shown = useMemo(() => pickOf(results, resultId), [results, resultId]);
  const nothing = results !== null && shown === null;
  const view = nothing || list.data === undefined ? "results" : tab;
  const open = (id: string) => {
    setResultId(id);
    setTab("evaluation");
  };
  return (
    <>
      <Strip>
        <Header results={results} shown={shown} update={view === "update"} onResult={setResultId} />
      </Strip>
      <TabRow
        label="Views of the result"
        value={view}
        tabs={[
          { value: "evaluation", label: "Evaluation × update" },
          { value: "update", label: "Update × update" },
          { value: "results", label: "Results", count: results?.length },
        ]}
        onChange={setTab}
        pill={shown && view !== "results" ? <ComputedAt shown={shown} /> : null}
      />
      <PanelArea tab={view}>
        {view === "results" || shown === null ? (
          <PanelSlot title="Stored results">
            <ResultsPanel
              results={results}
              error={list.error?.message ?? null}
              shown={shown?.id ?? null}
              onOpen={open}
            />
          </PanelSlot>
        ) : (
          <ResultView key={`${shown.id} ${view}`} shown={shown} update={view === "update"} />
        )}
      </PanelArea>
    </>
  );
}

/** The requested result if it can be shown, else the newest that can. */
function pickOf(results: readonly InfluenceSummary[] | null, resultId: string): InfluenceSummary | null {
  const usable = (results ?? []).filter(({ state }) => state === "finished");
  return usable.find(({ id }) => id === resultId) ?? usable[0] ?? null;
}

const keyOf = ({ id, made_at }: InfluenceSummary): ResultKey => ({ id, madeAt: made_at });

function ComputedAt({ shown }: { shown: InfluenceSummary }) {
  const step = shown.step === null ? "Computed" : `Computed at step ${formatCount(shown.step)}`;
  const age = formatAge(Date.now() / 1000 - shown.made_at);
  const text = age === "now" ? "just now" : `${age} ago`;
  return <Pill tone="neutral" glyph={<Icon name="clock" size={14} />} title={step} text={text} />;
}

interface HeaderProps {
  results: readonly InfluenceSummary[] | null;
  shown: InfluenceSummary | null;
  update: boolean;
  onResult: (id: string) => void;
}

/** What is computed on what. */
function Header({ results, shown, update, onResult }: HeaderProps) {
  const { data } = useInfluenceResult(shown && keyOf(shown));
  const [batch, setBatch] = useUrlState("batch", "0");
  if (shown === null) return <p className="text-t3">Which training sequences changed which answers.</p>;
  const request = data?.requests.find(({ index }) => String(index) === batch) ?? data?.requests[0];
  const items = (results ?? []).map((one) => ({
    label: one.name,
    note: one.state === "finished" ? one.id : one.state,
    checked: one.id === shown.id,
    disabledReason: one.state === "finished" ? null : one.problem,
    onSelect: () => onResult(one.id),
  }));
  return (
    <>
      <Choice
        name="Update"
        text={`${shown.name}, ${plural(shown.update_sequences ?? 0, "sequence")}`}
        heading="Stored results"
        items={items}
      />
      {!update && data && request && (
        <Choice
          name="Evaluation"
          text={`${request.name}, ${plural(request.sequences, "sequence")}`}
          heading="Evaluated batches"
          items={data.requests.map((one) => ({
            label: one.name,
            note: plural(one.sequences, "sequence"),
            checked: one.index === request.index,
            onSelect: () => setBatch(String(one.index)),
          }))}
        />
      )}
      {data && <Facts result={data} />}
    </>
  );
}

function Facts({ result }: { result: InfluenceOut }) {
  const facts = [
    ["Preconditioner", result.preconditioner],
    ["lr", formatRate(fromWire(result.step.lr))],
    ["Checkpoint", result.checkpoint],
  ];
  return (
    <>
      {facts.map(([name, value]) => (
        <span key={name} className="px-1 text-t3">
          {name} <span className="font-medium text-text">{value}</span>
        </span>
      ))}
      <span className="min-w-0 flex-1 truncate text-t3" title={result.algorithm}>
        {result.algorithm}
      </span>
    </>
  );
}

interface ChoiceProps {
  name: string;
  text: string;
  heading: string;
  items: Parameters<typeof Menu>[0]["items"];
}

function Choice({ name, text, heading, items }: ChoiceProps) {
  return (
    <Menu
      align="start"
      heading={heading}
      trigger={
        <Button>
          <span className="font-normal text-t3">{name}</span> {text}
          <Icon name="chevronDown" size={14} className="text-t3" />
        </Button>
      }
      items={items}
    />
  );
}

function ResultView({ shown, update }: { shown: InfluenceSummary; update: boolean }) {
  const key = keyOf(shown);
  const result = useInfluenceResult(key);
  const [batchParam] = useUrlState("batch", "0");
  const known = result.data?.requests.some(({ index }) => String(index) === batchParam) ?? true;
  const batchKey = update ? "update" : known ? batchParam : "0";
  const none = !update && result.data?.requests.length === 0;
  const batch = useInfluenceBatch(key, none ? null : batchKey);
  const kernel = useInfluenceKernel(key, batchKey, batch.data?.has_kernel ?? false);
  const error = result.error ?? batch.error;
  const influence = useMemo<InfluenceData | null>(
    () =>
      result.data && batch.data
        ? { result: result.data, batch: batch.data, kernel: kernel.data ?? null }
        : null,
    [result.data, batch.data, kernel.data],
  );
  if (error)
    return (
      <Panel
        title="Influence"
        className="h-full"
        state={{ kind: "error", title: "Could not load this result", text: error.message }}
      />
    );
  if (none)
    return (
      <Panel
        title="Influence"
        className="h-full"
        state={{
          kind: "empty",
          title: "No batch was evaluated",
          text: "The plan has no requests. Add one and run it again, or look at Update × update.",
        }}
      />
    );
  if (influence === null) return <Panel title="Influence" className="h-full" state={{ kind: "loading" }} />;
  return <InfluenceView influence={influence} kernelError={kernel.error?.message ?? null} />;
}

function InfluenceView({ influence, kernelError }: { influence: InfluenceData; kernelError: string | null }) {
  const [sequence, setSequence] = useUrlState("sequence", "");
  const [by, setBy] = useUrlState("by", "");
  const [text, setText] = useUrlState("advantages", "");
  const { sequences } = influence.batch;
  const row = useMemo(() => rowOf(influence, sequence), [influence, sequence]);
  const contributions = useMemo(() => contributionsTo(influence, row), [influence, row]);
  const changed = useMemo(() => readAdvantages(text, influence.result.update), [text, influence]);
  const select = (index: number) => setSequence(sequences[index]?.sequence_id ?? "");
  return (
    <div className="grid h-full min-h-[560px] grid-cols-4 grid-rows-[minmax(300px,1.2fr)_minmax(240px,1fr)] gap-2 max-[1199px]:h-auto max-[1199px]:grid-cols-2 max-[1199px]:grid-rows-[360px_360px_280px_300px]">
      <div className="col-span-2 min-h-0">
        <PanelSlot title="Kernel">
          <KernelPanel
            {...{ influence, error: kernelError, selected: row, onSelect: select }}
            onColumn={(column) => setBy(influence.result.update[column]?.sequence_id ?? "")}
          />
        </PanelSlot>
      </div>
      <div className="col-span-2 min-h-0">
        <PanelSlot title="What changed it">
          <ContributorsPanel {...{ influence, row, contributions }} by={by === "" ? null : by} onBy={setBy} />
        </PanelSlot>
      </div>
      <PanelSlot title="Predicted and actual">
        <ValidationPanel
          result={influence.result.name}
          validation={influence.result.validation}
          selected={sequences[row]?.sequence_id ?? null}
          onSelect={(id) => sequences.some(({ sequence_id }) => sequence_id === id) && setSequence(id)}
        />
      </PanelSlot>
      <PanelSlot title="Coverage">
        <CoveragePanel result={influence.result} />
      </PanelSlot>
      <div className="col-span-2 min-h-0">
        <PanelSlot title="What if">
          <WhatIfPanel
            {...{ influence, row, contributions, changed }}
            onChange={(next) => setText(writeAdvantages(next))}
          />
        </PanelSlot>
      </div>
    </div>
  );
}

/** The selected sequence, else the one that was moved most. */
function rowOf({ batch }: InfluenceData, sequence: string): number {
  const index = batch.sequences.findIndex(({ sequence_id }) => sequence_id === sequence);
  if (index >= 0) return index;
  let most = 0;
  batch.sequences.forEach(({ delta }, index) => {
    const size = Math.abs(fromWire(delta.total) ?? 0);
    if (size > Math.abs(fromWire(batch.sequences[most]?.delta.total) ?? 0)) most = index;
  });
  return most;
}
