/** One pair: question, source, keywords, its negatives by tier, its steering vectors, its variants over epochs. */
import { type ReactNode, useRef, useState } from "react";
import { fromWire, type NegativeOut, type PairOut } from "@/api/types";
import { formatCount, formatFixed, formatPercent } from "@/lib/format";
import { Panel, panelState } from "@/ui";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { exportItems } from "@/ui/export/exportItems";
import { DataTable, type TableColumn, type TableGroup } from "@/ui/table/DataTable";
import { largestSimilarity, TIER_WORDS, type Tier, tiersOf } from "./curriculum";
import { VariantStrip } from "./VariantStrip";

interface PairPanelProps {
  pair: PairOut | null;
  error: string | null;
  /** Still the pair before. */
  old: boolean;
}

export default function PairPanel({ pair, error, old }: PairPanelProps) {
  const container = useRef<HTMLDivElement>(null);
  const files = exportItems(
    `pair-${pair?.pair ?? ""}`,
    () => container.current,
    () => columnsOf(pair?.negatives ?? []),
    () => pair,
  );
  return (
    <Panel
      title={pair ? `Pair ${formatCount(pair.pair)}` : "Pair"}
      fact={pair && factOf(pair)}
      tools={
        <ExportMenu subject="the pair" items={files} disabledReason={pair ? null : "Choose a pair first"} />
      }
      className="h-full"
      state={panelState({ data: pair, error }, { what: "this pair" })}
    >
      {pair && (
        <div ref={container} className={`min-h-0 flex-1 overflow-auto pb-2 ${old ? "stale" : ""}`}>
          <PairView key={pair.pair} pair={pair} />
        </div>
      )}
    </Panel>
  );
}

function factOf({ split, cluster, relevance, distance }: PairOut): string {
  return `${split ?? "in no split"} · cluster ${cluster} · relevance ${formatFixed(fromWire(relevance), 2)} · distance ${formatFixed(fromWire(distance), 3)}`;
}

function PairView({ pair }: { pair: PairOut }) {
  const largest = largestSimilarity(pair);
  return (
    <>
      <div className="mx-3 flex flex-col gap-1.5">
        <Words head={`Question ${formatCount(pair.question_id)}`} text={pair.question} />
        <Words
          head={`Source ${formatCount(pair.source.id)} · similarity ${formatFixed(fromWire(pair.source.similarity), 3)}`}
          text={pair.source.text}
        />
        <Keywords keywords={pair.keywords} />
      </div>
      <Negatives
        tiers={tiersOf(pair.negatives)}
        largest={largest}
        positive={fromWire(pair.source.similarity) ?? Number.NaN}
      />
      <Steering pair={pair} />
    </>
  );
}

/** A text, whole; it scrolls in itself. */
function Words({ head, text }: { head: string; text: string | null }) {
  return (
    <div className="rounded-control bg-s2 px-2.5 py-1.5">
      <p className="text-label text-t3">{head}</p>
      <p className="max-h-16 overflow-auto break-words whitespace-pre-wrap">
        {text ?? <span className="text-t3">The dataset keeps no texts.</span>}
      </p>
    </div>
  );
}

function Keywords({ keywords }: Pick<PairOut, "keywords">) {
  if (keywords.length === 0)
    return <p className="text-t3">No keywords. Keyword steering uses the centroid vector.</p>;
  return (
    <ul className="flex flex-wrap gap-1" aria-label="Keywords">
      {keywords.map(({ id, text, similarity }) => (
        <li key={id} className="rounded-chip bg-s2 px-1.5 py-0.5">
          {text ?? `keyword ${formatCount(id)}`}{" "}
          <span className="text-t3">{formatFixed(fromWire(similarity), 2)}</span>
        </li>
      ))}
    </ul>
  );
}

interface NegativesProps {
  tiers: readonly Tier[];
  largest: number;
  positive: number;
}

/** The negatives by tier; the whole text of the chosen one is below them. */
function Negatives({ tiers, largest, positive }: NegativesProps) {
  const [chosen, setChosen] = useState<number | null>(null);
  const negatives = tiers.flatMap((tier) => tier.negatives);
  const one = chosen === null ? undefined : negatives[chosen];
  return (
    <div className="mt-2">
      <DataTable
        label="Negatives by tier"
        fit
        columns={negativeColumns(negatives, largest, positive)}
        groups={groupsOf(tiers)}
        selected={chosen}
        onSelect={setChosen}
      />
      {one && (
        <div className="sticky bottom-0 z-10 mx-3 mt-1">
          <Words head={`Source ${formatCount(one.id)}, the whole text`} text={one.text} />
        </div>
      )}
    </div>
  );
}

function groupsOf(tiers: readonly Tier[]): TableGroup[] {
  let first = 0;
  return tiers.map(({ tier, negatives, mean }) => {
    const rows = negatives.map((_, index) => first + index);
    first += negatives.length;
    const fact = `${TIER_WORDS[tier] ?? "unknown"} · ${formatCount(rows.length)} · mean ${formatFixed(mean, 3)}`;
    return { key: String(tier), label: `Tier ${tier}`, fact, rows };
  });
}

function negativeColumns(
  negatives: readonly NegativeOut[],
  largest: number,
  positive: number,
): TableColumn[] {
  const negativeAt = (row: number) => negatives[row] as NegativeOut;
  return [
    {
      name: "Negative",
      cells: negatives.map(({ id }) => id),
      numeric: false,
      rowHeader: true,
      look: "",
      track: { width: "64px", least: 64 },
      render: (row) => formatCount(negativeAt(row).id),
    },
    {
      name: "Similarity",
      cells: negatives.map(({ similarity }) => fromWire(similarity)),
      numeric: false,
      track: { width: "112px", least: 112 },
      render: (row) => (
        <Bar value={fromWire(negativeAt(row).similarity) ?? Number.NaN} {...{ largest, positive }} />
      ),
    },
    {
      name: "Share",
      headTitle: "Similarity, divided by that of the source of this pair",
      cells: negatives.map(({ of_positive }) => fromWire(of_positive)),
      numeric: true,
      track: { width: "52px", least: 52 },
      render: (row) => formatPercent(fromWire(negativeAt(row).of_positive)),
    },
    {
      name: "Text",
      cells: negatives.map(({ text }) => text),
      numeric: false,
      track: { width: "minmax(0,1fr)", least: 92 },
      render: (row) =>
        negativeAt(row).text ?? <span className="text-t3">source {formatCount(negativeAt(row).id)}</span>,
    },
  ];
}

/** A bar from 0, a tick where the source's own similarity is, and the number. */
function Bar({ value, largest, positive }: { value: number; largest: number; positive: number }) {
  const at = (number: number) => `${Math.min(Math.max(number / largest, 0), 1) * 100}%`;
  return (
    <span className="flex items-center gap-1.5">
      <span className="relative h-2 min-w-0 flex-1 bg-s2" aria-hidden="true">
        <span className="absolute inset-y-0 left-0 rounded-mark bg-series-1" style={{ width: at(value) }} />
        <span className="absolute -top-0.5 -bottom-0.5 w-px bg-text" style={{ left: at(positive) }} />
      </span>
      <span className="w-9 text-right">{formatFixed(value, 3)}</span>
    </span>
  );
}

function Steering({ pair }: { pair: PairOut }) {
  return (
    <>
      <div className="mt-2">
        <DataTable label="Steering vectors" fit columns={steeringColumns(pair.steering)} />
      </div>
      <Section title="Variant in each epoch" fact="under the dataset's own schedule">
        <VariantStrip variants={pair.variants} />
      </Section>
    </>
  );
}

function steeringColumns(steering: PairOut["steering"]): TableColumn[] {
  const figure = (title: string, values: (number | null)[]): TableColumn => ({
    name: title,
    numeric: true,
    cells: values,
    track: { width: "minmax(64px,1fr)", least: 64 },
    render: (row) => formatFixed(values[row], 3),
  });
  return [
    {
      name: "Steering",
      numeric: false,
      rowHeader: true,
      cells: steering.map(({ variant }) => variant),
      track: { width: "minmax(72px,1fr)", least: 72 },
      look: "",
    },
    figure(
      "Length",
      steering.map(({ length }) => fromWire(length)),
    ),
    figure(
      "cos question",
      steering.map(({ to_question }) => fromWire(to_question)),
    ),
    figure(
      "cos source",
      steering.map(({ to_source }) => fromWire(to_source)),
    ),
    figure(
      "cos centroid",
      steering.map(({ to_centroid }) => fromWire(to_centroid)),
    ),
  ];
}

function Section({ title, fact, children }: { title: string; fact: string; children: ReactNode }) {
  return (
    <div className="mx-3 mt-2">
      <p className="text-label text-t3">
        {title}, {fact}
      </p>
      {children}
    </div>
  );
}

function columnsOf(negatives: readonly NegativeOut[]) {
  return [
    { name: "place", cells: negatives.map(({ place }) => place) },
    { name: "source", cells: negatives.map(({ id }) => id) },
    { name: "tier", cells: negatives.map(({ tier }) => tier) },
    { name: "similarity", cells: negatives.map(({ similarity }) => fromWire(similarity)) },
    { name: "of_positive", cells: negatives.map(({ of_positive }) => fromWire(of_positive)) },
    { name: "text", cells: negatives.map(({ text }) => text) },
  ];
}
