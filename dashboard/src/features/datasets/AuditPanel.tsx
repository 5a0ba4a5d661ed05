/** The builder's report on leaks between splits: three levels, and the rows that were found. */

import { useRef } from "react";
import { type AuditOut, type DatasetAuditOut, fromWire } from "@/api/types";
import { formatCount, formatFixed, plural } from "@/lib/format";
import { NOTHING_TO_EXPORT } from "@/lib/messages";
import { Chip, Icon, Panel, type PanelState, panelState } from "@/ui";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { exportItems } from "@/ui/export/exportItems";
import { DataTable } from "@/ui/table/DataTable";

interface AuditPanelProps {
  answer: DatasetAuditOut | null;
  error: string | null;
}

const LEVELS = new Map([
  ["question", "Same question"],
  ["source_text", "Same source text"],
  ["near_duplicate", "Near duplicate"],
]);

export default function AuditPanel({ answer, error }: AuditPanelProps) {
  const container = useRef<HTMLDivElement>(null);
  const audit = answer?.audit ?? null;
  const files = exportItems(
    "audit",
    () => container.current,
    () => columnsOf(audit),
    () => audit,
  );
  return (
    <Panel
      title="Leaks between splits"
      fact={audit && verdict(audit)}
      tools={
        <ExportMenu subject="the audit" items={files} disabledReason={audit ? null : NOTHING_TO_EXPORT} />
      }
      className="h-full"
      state={stateOf(answer, error)}
    >
      {audit && (
        <div ref={container} className="min-h-0 flex-1 overflow-auto pb-2">
          {Object.entries(audit.levels).map(([name, level]) => (
            <Level key={name} name={LEVELS.get(name) ?? name} level={level} />
          ))}
          <p className="px-3 pt-2 text-t3">
            From audit.json. If the tables have changed since, run:{" "}
            <code className="font-mono">midstep data audit --write</code>
          </p>
        </div>
      )}
    </Panel>
  );
}

function leaksOf({ levels }: AuditOut): number {
  return Object.values(levels).reduce((sum, { leaks }) => sum + leaks, 0);
}

function verdict(audit: AuditOut): string {
  return audit.clean ? "clean on all levels" : `${plural(leaksOf(audit), "leak")} found`;
}

type LevelOut = AuditOut["levels"][string];

function Level({ name, level }: { name: string; level: LevelOut }) {
  const threshold = fromWire(level.threshold);
  return (
    <section aria-label={name} className="mt-1">
      <h3 className="flex h-7 items-center gap-2 px-3 font-medium">
        {name}
        {level.leaks === 0 ? (
          <Chip glyph={<Icon name="check" size={12} />}>None</Chip>
        ) : (
          <Chip tone="bad" glyph={<Icon name="warning" size={12} />}>
            {formatCount(level.leaks)}
          </Chip>
        )}
        {threshold !== null && (
          <span className="font-normal text-t3">similarity from {formatFixed(threshold, 2)}</span>
        )}
        {level.leaks > level.examples.length && (
          <span className="font-normal text-t3">first {formatCount(level.examples.length)}</span>
        )}
      </h3>
      {level.examples.length > 0 && <Examples examples={level.examples} />}
    </section>
  );
}

function Examples({ examples }: Pick<LevelOut, "examples">) {
  const rowOf = (split: string | null, kind: string | null, row: number) =>
    `${split} ${kind} ${formatCount(row)}`;
  const text = (row: number) => examples[row]?.text ?? undefined;
  return (
    <DataTable
      label="Leaking rows"
      fit
      columns={[
        {
          name: "row",
          title: "Row",
          numeric: false,
          cells: examples.map(({ split_a, kind, row_a }) => rowOf(split_a, kind, row_a)),
          track: { width: "128px", least: 128 },
          look: "",
        },
        {
          name: "other",
          title: "And row",
          numeric: false,
          cells: examples.map(({ split_b, kind, row_b }) => rowOf(split_b, kind, row_b)),
          track: { width: "120px", least: 120 },
        },
        {
          name: "similarity",
          title: "Similarity",
          numeric: true,
          cells: examples.map(({ similarity }) => fromWire(similarity)),
          track: { width: "80px", least: 80 },
          render: (row) => formatFixed(fromWire(examples[row]?.similarity ?? null), 3),
        },
        {
          name: "text",
          title: "Text",
          numeric: false,
          cells: examples.map((one) => one.text),
          track: { width: "minmax(96px,1fr)", least: 96 },
          look: "text-t2",
          titleOf: text,
          render: text,
        },
      ]}
    />
  );
}

const stateOf = (data: DatasetAuditOut | null, error: string | null): PanelState =>
  panelState({ data, error }, { what: "the audit", empty: noAudit });

function noAudit(answer: DatasetAuditOut): PanelState | null {
  if (answer.audit !== null) return null;
  if (answer.audit_problem !== null)
    return {
      kind: "error",
      title: "Could not load the audit",
      text: `${answer.audit_problem}. Write it again with midstep data audit FOLDER --write.`,
    };
  return {
    kind: "empty",
    title: "Not audited yet",
    text: (
      <>
        Check for leaks between its splits with{" "}
        <code className="font-mono">midstep data audit FOLDER --write</code>.
      </>
    ),
  };
}

function columnsOf(audit: AuditOut | null) {
  const rows = Object.entries(audit?.levels ?? {}).flatMap(([level, { examples }]) =>
    examples.map((one) => ({ level, ...one })),
  );
  return [
    { name: "level", cells: rows.map(({ level }) => level) },
    { name: "kind", cells: rows.map(({ kind }) => kind) },
    { name: "split_a", cells: rows.map(({ split_a }) => split_a) },
    { name: "row_a", cells: rows.map(({ row_a }) => row_a) },
    { name: "split_b", cells: rows.map(({ split_b }) => split_b) },
    { name: "row_b", cells: rows.map(({ row_b }) => row_b) },
    { name: "similarity", cells: rows.map(({ similarity }) => fromWire(similarity)) },
    { name: "text", cells: rows.map(({ text }) => text) },
  ];
}
