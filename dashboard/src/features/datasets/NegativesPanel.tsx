/** Where a tier of negatives ran short, and what filled its place. */

import { useRef } from "react";
import type { DatasetAuditOut, DatasetOut, LedgerOut } from "@/api/types";
import { formatCount, plural } from "@/lib/format";
import { NOTHING_TO_EXPORT } from "@/lib/messages";
import { Panel, panelState } from "@/ui";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { exportItems } from "@/ui/export/exportItems";
import { DataTable, type TableColumn } from "@/ui/table/DataTable";
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

const TIERS = [1, 2, 3, 4];

function Tiers({ dataset, ledger }: { dataset: DatasetOut; ledger: LedgerOut | null }) {
  const counted = dataset.tiers_of < dataset.counts.pairs ? `of ${plural(dataset.tiers_of, "pair")}` : "";
  const track = (px: number) => ({ width: `${px}px`, least: px });
  return (
    <DataTable
      label="Tiers"
      fit
      columns={[
        {
          name: "tier",
          title: "Tier",
          numeric: false,
          rowHeader: true,
          cells: TIERS,
          track: { width: "minmax(96px,1fr)", least: 96 },
          look: "",
          render: (row) => (
            <>
              {TIERS[row]} <span className="text-t3">{TIER_WORDS[TIERS[row] as number]}</span>
            </>
          ),
        },
        {
          name: "quota",
          title: "A pair",
          numeric: true,
          cells: TIERS.map((tier) => ledger?.quotas[String(tier)]),
          track: track(68),
        },
        {
          name: "stored",
          title: `Stored ${counted}`,
          numeric: true,
          cells: TIERS.map((tier) => dataset.tiers[String(tier)]),
          track: track(128),
        },
      ]}
    />
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
      <div className="mt-2">
        <DataTable label="Shortages" fit columns={shortageColumns(ledger, onPair)} />
      </div>
      {ledger.kept > ledger.shortages.length && (
        <p className="px-3 py-1 text-t3">
          {formatCount(ledger.shortages.length)} of {formatCount(ledger.kept)} are listed.
        </p>
      )}
    </>
  );
}

function shortageColumns({ shortages }: LedgerOut, onPair: (pair: number) => void): TableColumn[] {
  const count = (name: string, title: string, px: number, cells: number[]): TableColumn => ({
    name,
    title,
    numeric: true,
    cells,
    track: { width: `${px}px`, least: px },
  });
  return [
    {
      ...count(
        "pair",
        "Pair",
        68,
        shortages.map(({ pair }) => pair),
      ),
      look: "",
      render: (row) => (
        <button
          type="button"
          onClick={() => onPair(shortages[row]?.pair as number)}
          className="h-6 rounded-chip hover:text-accent hover:underline"
        >
          {formatCount(shortages[row]?.pair)}
        </button>
      ),
    },
    count(
      "tier",
      "Tier",
      48,
      shortages.map(({ tier }) => tier),
    ),
    count(
      "wanted",
      "Wanted",
      64,
      shortages.map(({ wanted }) => wanted),
    ),
    count(
      "found",
      "Found",
      56,
      shortages.map(({ found }) => found),
    ),
    {
      name: "filled",
      title: "Filled from",
      numeric: false,
      cells: shortages.map(({ filled_from }) => filledFrom(filled_from)),
      track: { width: "minmax(80px,1fr)", least: 80 },
      look: "text-t2",
    },
  ];
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
