/** The builder's report on leaks between splits: three levels, and the rows that were found. */

import { useRef } from "react";
import { type AuditOut, type DatasetAuditOut, fromWire } from "@/api/types";
import { formatCount, formatFixed, plural } from "@/lib/format";
import { NOTHING_TO_EXPORT } from "@/lib/messages";
import { Chip, Icon, Panel, type PanelState, panelState, rowClass } from "@/ui";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { exportItems } from "@/ui/export/exportItems";

interface AuditPanelProps {
  answer: DatasetAuditOut | null;
  error: string | null;
}

const LEVELS: Readonly<Record<string, string>> = {
  question: "Same question",
  source_text: "Same source text",
  near_duplicate: "Near duplicate",
};

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
            <Level key={name} name={LEVELS[name] ?? name} level={level} />
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
  const head = "px-2 font-normal text-label text-t3";
  return (
    <table className="w-full table-fixed border-collapse">
      <thead>
        <tr className="h-6 text-left shadow-[inset_0_-1px_0_var(--line)]">
          <th scope="col" className={`${head} w-32 pl-3`}>
            Row
          </th>
          <th scope="col" className={`${head} w-30`}>
            And row
          </th>
          <th scope="col" className={`${head} w-20 text-right`}>
            Similarity
          </th>
          <th scope="col" className={`${head} pr-3`}>
            Text
          </th>
        </tr>
      </thead>
      <tbody>
        {examples.map((one) => (
          <tr
            key={`${one.kind} ${one.split_a} ${one.row_a} ${one.split_b} ${one.row_b}`}
            className={rowClass()}
            title={one.text ?? undefined}
          >
            <td className="truncate px-2 pl-3">
              {one.split_a} {one.kind} {formatCount(one.row_a)}
            </td>
            <td className="truncate px-2">
              {one.split_b} {one.kind} {formatCount(one.row_b)}
            </td>
            <td className="px-2 text-right">{formatFixed(fromWire(one.similarity), 3)}</td>
            <td className="truncate px-2 pr-3 text-t2">{one.text}</td>
          </tr>
        ))}
      </tbody>
    </table>
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
