/** What changed before the stop: the cause first, then by step, then what did not change, in grey. */
import { type ReactNode, useState } from "react";
import { type DiagnosedChange, type Diagnosis, fromWire } from "@/api/types";
import { downloadText } from "@/lib/download";
import { formatCount, NONE } from "@/lib/format";
import { useDiagnosis } from "@/live/diagnosis";
import { Icon, Panel } from "@/ui";
import { csvOf, jsonOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { DataTable, type TableColumn } from "@/ui/table/DataTable";
import { changeValue } from "./diagnosisText";
import { Sparkline } from "./Sparkline";

interface ChangesPanelProps {
  /** Shows a step in the chart; rows lead nowhere where it is left out. */
  onStep?: (step: number) => void;
  stale: string | null;
}

export default function ChangesPanel({ onStep, stale }: ChangesPanelProps) {
  const diagnosis = useDiagnosis();
  if (diagnosis === null) return <Panel title="What changed" className="h-full" />;
  // Another stop starts with nothing chosen.
  const key = `${diagnosis.timeline} ${diagnosis.step}`;
  return <ChangesView key={key} {...{ diagnosis, onStep, stale }} />;
}

function ChangesView({ diagnosis, onStep, stale }: ChangesPanelProps & { diagnosis: Diagnosis }) {
  const { changes, steps } = diagnosis;
  const [chosen, setChosen] = useState<number | null>(null);
  const cause = changes.findIndex(({ is_cause }) => is_cause);
  const count = steps.length;
  const choose = (row: number) => {
    setChosen(row);
    const step = changes[row]?.step ?? null;
    if (step !== null) onStep?.(step);
  };
  return (
    <Panel
      title="What changed"
      fact={count > 1 ? `in the last ${count} steps` : null}
      stale={stale}
      tools={<ExportMenu subject="changes" items={exportsOf(diagnosis)} />}
      className="h-full"
      bodyClassName="-mt-1 pb-1"
      state={
        changes.length === 0
          ? {
              kind: "unavailable",
              text: "No earlier steps were recorded. Set a breakpoint before the run reaches the problem.",
            }
          : undefined
      }
    >
      <DataTable
        label="What changed"
        columns={columnsOf(diagnosis)}
        selected={chosen}
        onSelect={onStep && choose}
        current={cause === -1 ? null : cause}
        lookOf={(row) => ({ bad: row === cause, excluded: changes[row]?.step === null })}
      />
    </Panel>
  );
}

const toneOf = ({ is_cause: isCause, step }: DiagnosedChange) =>
  isCause ? "bad" : step === null ? "quiet" : "plain";

function columnsOf({ changes, steps }: Diagnosis): TableColumn[] {
  const changeAt = (row: number) => changes[row] as DiagnosedChange;
  const column = (name: string, width: number, render: (change: DiagnosedChange) => ReactNode) => ({
    name,
    cells: changes.map(() => null),
    numeric: true,
    track: { width: `${width}px`, least: width },
    render: (row: number) => render(changeAt(row)),
  });
  return [
    {
      name: "What",
      cells: changes.map(({ what }) => what),
      numeric: false,
      rowHeader: true,
      track: { width: "minmax(0,1fr)", least: 120 },
      titleOf: (row) => changeAt(row).what,
    },
    column("Before", 60, (change) => changeValue(change, change.before)),
    column("After", 60, (change) => <After change={change} />),
    {
      ...column(`${formatCount(steps[0])} to ${formatCount(steps.at(-1))}`, 124, (change) => (
        <Sparkline
          line={change.line}
          changedAt={change.step === null ? null : steps.indexOf(change.step)}
          tone={toneOf(change)}
        />
      )),
      numeric: false,
    },
    column("Step", 56, ({ step }) => (step === null ? NONE : formatCount(step))),
    {
      ...column("Reading", 172, (change) => <Reading change={change} />),
      numeric: false,
      titleOf: (row) => changeAt(row).reading,
    },
  ];
}

function After({ change }: { change: DiagnosedChange }) {
  const value = fromWire(change.after);
  const isBroken = value !== null && !Number.isFinite(value);
  return (
    <span className={isBroken || change.is_cause ? "font-medium text-bad" : "font-medium"}>
      {changeValue(change, change.after)}
    </span>
  );
}

function Reading({ change: { is_cause: isCause, reading } }: { change: DiagnosedChange }) {
  return (
    <span className={isCause ? "text-bad" : ""}>
      {isCause && <Icon name="refused" size={14} className="mr-1.5 inline align-[-2px]" />}
      {reading}
    </span>
  );
}

function exportsOf(diagnosis: Diagnosis) {
  const { changes, step } = diagnosis;
  const name = `changes-${step}`;
  const columns = (["what", "before", "after", "step", "reading"] as const).map((field) => ({
    name: field,
    cells: changes.map((change) => change[field]),
  }));
  return [
    {
      label: "CSV, one row per change",
      onSelect: () => downloadText(`${name}.csv`, csvOf(columns), "text/csv"),
    },
    {
      label: "JSON, the whole diagnosis",
      onSelect: () => downloadText(`${name}.json`, jsonOf(diagnosis), "application/json"),
    },
  ];
}
