/** One pair: question, source, keywords, its negatives by tier, its steering vectors, its variants over epochs. */
import { type ReactNode, useRef, useState } from "react";
import { fromWire, type NegativeOut, type PairOut } from "@/api/types";
import { formatCount, formatFixed, formatPercent } from "@/lib/format";
import { Panel, panelState, rowClass } from "@/ui";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { exportItems } from "@/ui/export/exportItems";
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

const HEAD = "px-2 font-normal text-label text-t3";

interface NegativesProps {
  tiers: readonly Tier[];
  largest: number;
  positive: number;
}

function Negatives({ tiers, largest, positive }: NegativesProps) {
  const [open, setOpen] = useState<number | null>(null);
  return (
    <table className="mt-2 w-full table-fixed border-collapse" aria-label="Negatives by tier">
      <thead className="sticky top-0 z-10 bg-surface">
        <tr className="h-6 text-left shadow-[inset_0_-1px_0_var(--line)]">
          <th scope="col" className={`${HEAD} w-17 pl-3`}>
            Negative
          </th>
          <th scope="col" className={`${HEAD} w-28`}>
            Similarity
          </th>
          <th scope="col" className={`${HEAD} w-14 text-right`} title="Share of the source's own similarity">
            Share
          </th>
          <th scope="col" className={HEAD}>
            Text
          </th>
        </tr>
      </thead>
      {tiers.map((tier) => (
        <tbody key={tier.tier}>
          <tr className="h-6">
            <th scope="rowgroup" colSpan={4} className="px-3 text-left font-medium">
              Tier {tier.tier}{" "}
              <span className="font-normal text-t3">
                {TIER_WORDS[tier.tier] ?? "unknown"} · {formatCount(tier.negatives.length)} · mean{" "}
                {formatFixed(tier.mean, 3)}
              </span>
            </th>
          </tr>
          {tier.negatives.map((one) => (
            <NegativeRow
              key={one.place}
              {...{ one, largest, positive }}
              open={open === one.place}
              onOpen={() => setOpen(open === one.place ? null : one.place)}
            />
          ))}
        </tbody>
      ))}
    </table>
  );
}

interface NegativeRowProps {
  one: NegativeOut;
  largest: number;
  positive: number;
  open: boolean;
  onOpen: () => void;
}

function NegativeRow({ one, largest, positive, open, onOpen }: NegativeRowProps) {
  const share = fromWire(one.of_positive);
  return (
    <tr className={`${rowClass({ selected: open })} align-top`} onClick={onOpen}>
      <td className="pr-2 pl-3 leading-6">
        <button
          type="button"
          aria-expanded={open}
          aria-label={`Source ${one.id}, the whole text`}
          onClick={(event) => {
            event.stopPropagation();
            onOpen();
          }}
          className="h-6 rounded-chip hover:text-accent"
        >
          {formatCount(one.id)}
        </button>
      </td>
      <td className="px-2 leading-6">
        <Bar value={fromWire(one.similarity) ?? Number.NaN} {...{ largest, positive }} />
      </td>
      <td className="px-2 text-right leading-6 whitespace-nowrap">
        {share === null ? "—" : formatPercent(share)}
      </td>
      <td className={`px-2 ${open ? "py-1 break-words whitespace-pre-wrap" : "truncate leading-6"}`}>
        {one.text ?? <span className="text-t3">source {formatCount(one.id)}</span>}
      </td>
    </tr>
  );
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
      <table className="mt-2 w-full table-fixed border-collapse" aria-label="Steering vectors">
        <thead>
          <tr className="h-6 text-left shadow-[inset_0_-1px_0_var(--line)]">
            <th scope="col" className={`${HEAD} pl-3`}>
              Steering
            </th>
            {["Length", "cos question", "cos source", "cos centroid"].map((name) => (
              <th key={name} scope="col" className={`${HEAD} text-right`}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {pair.steering.map((one) => (
            <tr key={one.variant} className={rowClass()}>
              <th scope="row" className="px-2 pl-3 text-left font-normal">
                {one.variant}
              </th>
              {[one.length, one.to_question, one.to_source, one.to_centroid].map((value, at) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: the four columns stay where they are
                <td key={at} className="px-2 text-right">
                  {formatFixed(fromWire(value), 3)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      <Section title="Variant in each epoch" fact="under the dataset's own schedule">
        <VariantStrip variants={pair.variants} />
      </Section>
    </>
  );
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
