/** What changed before the stop: the cause first, then by step, then what did not change, in grey. */
import { type DiagnosedChange, type Diagnosis, fromWire } from "@/api/types";
import { downloadText } from "@/lib/download";
import { formatCount, NONE } from "@/lib/format";
import { useDiagnosis } from "@/live/diagnosis";
import { Icon, Panel } from "@/ui";
import { csvOf, jsonOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { Sparkline } from "./Sparkline";
import { changeValue } from "./words";

interface ChangesPanelProps {
  /** Shows a step in the chart. */
  onStep: (step: number) => void;
  stale: string | null;
}

export default function ChangesPanel({ onStep, stale }: ChangesPanelProps) {
  const diagnosis = useDiagnosis();
  if (diagnosis === null) return <Panel title="What changed" className="h-full" />;
  return <ChangesView {...{ diagnosis, onStep, stale }} />;
}

export function ChangesView({ diagnosis, onStep, stale }: ChangesPanelProps & { diagnosis: Diagnosis }) {
  const { changes, steps } = diagnosis;
  const [first, last] = [steps[0], steps.at(-1)];
  const count = steps.length;
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
              text: "No step before the stop was noted: the breakpoint was set after them.",
            }
          : undefined
      }
    >
      <div className="min-h-0 flex-1 overflow-y-auto">
        <table className="w-full table-fixed" aria-label="What changed">
          <thead className="sticky top-0 z-10 bg-surface text-left text-t3">
            <tr className="h-6 [&>th]:font-normal">
              <th className="pl-3">What</th>
              <th className="w-[72px] text-right">Before</th>
              <th className="w-[72px] pr-3 text-right">After</th>
              <th className="w-[124px] whitespace-nowrap">
                {formatCount(first)} to {formatCount(last)}
              </th>
              <th className="w-[56px] pr-3 text-right">Step</th>
              <th className="w-[172px]">Reading</th>
            </tr>
          </thead>
          <tbody>
            {changes.map((change) => (
              <ChangeRow key={change.key} {...{ change, steps, onStep }} />
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

interface ChangeRowProps {
  change: DiagnosedChange;
  steps: readonly number[];
  onStep: (step: number) => void;
}

function ChangeRow({ change, steps, onStep }: ChangeRowProps) {
  const { what, before, after, line, step, reading, is_cause: isCause } = change;
  const isSame = step === null;
  const at = step === null ? -1 : steps.indexOf(step);
  const after_ = fromWire(after);
  const isBroken = after_ !== null && !Number.isFinite(after_);
  const look = isCause
    ? "bg-bad-soft text-bad shadow-[inset_2px_0_0_var(--bad-mark)]"
    : isSame
      ? "text-t3"
      : "hover:bg-s2";
  const show = step === null ? undefined : () => onStep(step);
  return (
    <tr
      className={`h-6 ${look} ${show ? "cursor-pointer" : ""}`}
      aria-current={isCause || undefined}
      onClick={show}
    >
      <th
        scope="row"
        className={`truncate pl-3 text-left ${isSame ? "font-normal" : "font-medium"} ${isCause ? "text-text" : ""}`}
        title={what}
      >
        {what}
      </th>
      <td className={`text-right ${isSame ? "" : "text-t2"}`}>{changeValue(change, before)}</td>
      <td
        className={`pr-3 text-right ${isSame ? "" : "font-medium"} ${isBroken || isCause ? "text-bad" : ""}`}
      >
        {changeValue(change, after)}
      </td>
      <td>
        <Sparkline
          line={line}
          changedAt={at < 0 ? null : at}
          tone={isCause ? "bad" : isSame ? "quiet" : "plain"}
        />
      </td>
      <td className="pr-3 text-right">
        {step === null ? (
          NONE
        ) : (
          <button
            type="button"
            className="hover:underline"
            aria-label={`Show step ${formatCount(step)} in the chart`}
            onClick={(event) => {
              event.stopPropagation();
              onStep(step);
            }}
          >
            {formatCount(step)}
          </button>
        )}
      </td>
      <td className="truncate pr-3" title={reading}>
        {isCause && <Icon name="refused" size={14} className="mr-1.5 inline align-[-2px]" />}
        {reading}
      </td>
    </tr>
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
