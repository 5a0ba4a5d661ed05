/** Where a tier of negatives ran short, and what filled its place. */

import { useRef } from "react";
import type { DatasetAuditOut, DatasetOut, LedgerOut } from "@/api/types";
import { formatCount, plural } from "@/lib/format";
import { NOTHING_TO_EXPORT } from "@/lib/messages";
import { Panel, panelState, rowClass } from "@/ui";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { exportItems } from "@/ui/export/exportItems";
import { TIER_WORDS } from "./curriculum";

interface NegativesPanelProps {
  dataset: DatasetOut;
  answer: DatasetAuditOut | null;
  error: string | null;
  onPair: (pair: number) => void;
}

export default function NegativesPanel({ dataset, answer, error, onPair }: NegativesPanelProps) {
  const container = useRef<HTMLDivElement>(null);
  const ledger = answer?.ledger ?? null;
  const files = exportItems(
    "ledger",
    () => container.current,
    () => columnsOf(ledger),
    () => ledger,
  );
  return (
    <Panel
      title="Negatives"
      fact={ledger && factOf(ledger)}
      tools={
        <ExportMenu subject="the ledger" items={files} disabledReason={ledger ? null : NOTHING_TO_EXPORT} />
      }
      className="h-full"
      state={panelState({ data: answer, error }, { what: "the negatives" })}
    >
      <div ref={container} className="min-h-0 flex-1 overflow-auto pb-2">
        <Tiers dataset={dataset} ledger={ledger} />
        {ledger && <Shortages ledger={ledger} onPair={onPair} />}
        {ledger === null && (
          <p className="px-3 py-2 text-t3">
            {answer?.ledger_problem ??
              "The dataset has no record of missing negatives. midstep data build writes one."}
          </p>
        )}
      </div>
    </Panel>
  );
}

function factOf({ short_pairs, dropped }: LedgerOut): string {
  const left = dropped > 0 ? `, ${formatCount(dropped)} dropped` : "";
  return `${plural(short_pairs, "pair")} ${short_pairs === 1 ? "lacks" : "lack"} negatives in a tier${left}`;
}

const HEAD = "px-2 font-normal text-label text-t3";

function Tiers({ dataset, ledger }: { dataset: DatasetOut; ledger: LedgerOut | null }) {
  const counted = dataset.tiers_of < dataset.counts.pairs ? `of ${plural(dataset.tiers_of, "pair")}` : "";
  return (
    <table className="w-full table-fixed border-collapse" aria-label="Tiers">
      <thead>
        <tr className="h-6 text-left shadow-[inset_0_-1px_0_var(--line)]">
          <th scope="col" className={`${HEAD} pl-3`}>
            Tier
          </th>
          <th scope="col" className={`${HEAD} w-17 text-right`}>
            A pair
          </th>
          <th scope="col" className={`${HEAD} w-32 pr-3 text-right`}>
            Stored {counted}
          </th>
        </tr>
      </thead>
      <tbody>
        {[1, 2, 3, 4].map((tier) => (
          <tr key={tier} className={rowClass()}>
            <th scope="row" className="truncate px-2 pl-3 text-left font-normal">
              {tier} <span className="text-t3">{TIER_WORDS[tier]}</span>
            </th>
            <td className="px-2 text-right">{formatCount(ledger?.quotas[String(tier)])}</td>
            <td className="px-2 pr-3 text-right">{formatCount(dataset.tiers[String(tier)])}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface ShortagesProps {
  ledger: LedgerOut;
  onPair: (pair: number) => void;
}

function Shortages({ ledger, onPair }: ShortagesProps) {
  if (ledger.shortages.length === 0)
    return <p className="px-3 py-2 text-t3">Every pair has all its negatives in every tier.</p>;
  return (
    <>
      <table className="mt-2 w-full table-fixed border-collapse" aria-label="Shortages">
        <thead>
          <tr className="h-6 text-left shadow-[inset_0_-1px_0_var(--line)]">
            <th scope="col" className={`${HEAD} w-17 pl-3`}>
              Pair
            </th>
            <th scope="col" className={`${HEAD} w-12 text-right`}>
              Tier
            </th>
            <th scope="col" className={`${HEAD} w-16 text-right`}>
              Wanted
            </th>
            <th scope="col" className={`${HEAD} w-14 text-right`}>
              Found
            </th>
            <th scope="col" className={`${HEAD} pr-3`}>
              Filled from
            </th>
          </tr>
        </thead>
        <tbody>
          {ledger.shortages.map((one) => (
            <tr key={`${one.pair} ${one.tier}`} className={rowClass()}>
              <td className="px-2 pl-3">
                <button
                  type="button"
                  onClick={() => onPair(one.pair)}
                  className="h-6 rounded-chip hover:text-accent hover:underline"
                >
                  {formatCount(one.pair)}
                </button>
              </td>
              <td className="px-2 text-right">{one.tier}</td>
              <td className="px-2 text-right">{one.wanted}</td>
              <td className="px-2 text-right">{one.found}</td>
              <td className="truncate px-2 pr-3 text-t2">{filledFrom(one.filled_from)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {ledger.kept > ledger.shortages.length && (
        <p className="px-3 py-1 text-t3">
          {formatCount(ledger.shortages.length)} of {formatCount(ledger.kept)} are listed.
        </p>
      )}
    </>
  );
}

/** "2 of tier 2, 1 of tier 4". */
export function filledFrom(from: Readonly<Record<string, number>>): string {
  const parts = Object.entries(from).map(([tier, count]) => `${formatCount(count)} of tier ${tier}`);
  return parts.join(", ") || "nothing";
}

function columnsOf(ledger: LedgerOut | null) {
  const rows = ledger?.shortages ?? [];
  return [
    { name: "pair", cells: rows.map(({ pair }) => pair) },
    { name: "tier", cells: rows.map(({ tier }) => tier) },
    { name: "wanted", cells: rows.map(({ wanted }) => wanted) },
    { name: "found", cells: rows.map(({ found }) => found) },
    { name: "filled_from", cells: rows.map(({ filled_from }) => filledFrom(filled_from)) },
  ];
}
