/** Predicted against actual: true steps at several learning rates. */
import { useMemo, useRef } from "react";
import { fromWire, type InfluenceValidation } from "@/api/types";
import { Scatter } from "@/charts/points/Scatter";
import { formatFixed, formatPercent, formatRate } from "@/lib/format";
import { useTheme } from "@/lib/theme";
import { useUrlState } from "@/lib/urlState";
import { Button, Icon, Menu, Panel } from "@/ui";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { exportItems } from "@/ui/export/exportItems";

interface ValidationPanelProps {
  result: string;
  validation: InfluenceValidation | null;
  /** The evaluated sequence that is selected. */
  selected: string | null;
  onSelect: (sequenceId: string) => void;
}

interface Check {
  label: string;
  predicted: readonly number[];
  actual: readonly number[];
  error: number;
  correlation: number;
}

const numbers = (cells: readonly (number | "NaN" | "Infinity" | "-Infinity")[]) =>
  cells.map((cell) => fromWire(cell) ?? Number.NaN);

/** Each rate, then what training itself did. */
function checksOf({ rates, after }: InfluenceValidation): Check[] {
  const extra = rates.map((one) => ({ ...one, label: `lr ${formatRate(fromWire(one.lr))}` }));
  const trained = after ? [{ ...after, label: after.checkpoint }] : [];
  return [...trained, ...extra].map((one) => ({
    label: one.label,
    predicted: numbers(one.predicted),
    actual: numbers(one.actual),
    error: fromWire(one.relative_error) ?? Number.NaN,
    correlation: fromWire(one.correlation) ?? Number.NaN,
  }));
}

export default function ValidationPanel({ result, validation, selected, onSelect }: ValidationPanelProps) {
  const theme = useTheme();
  const container = useRef<HTMLDivElement>(null);
  const [rate, setRate] = useUrlState("rate", "");
  const checks = useMemo(() => (validation ? checksOf(validation) : []), [validation]);
  const shown = checks.find(({ label }) => label === rate) ?? checks[0];
  if (validation === null || shown === undefined) return <NotChecked />;
  const ids = validation.sequence_ids;
  const at = selected === null ? -1 : ids.indexOf(selected);
  const files = exportItems(
    `predicted-${result}`,
    () => container.current,
    () => [
      { name: "sequence_id", cells: ids },
      ...checks.flatMap(({ label, predicted, actual }) => [
        { name: `predicted ${label}`, cells: predicted },
        { name: `actual ${label}`, cells: actual },
      ]),
    ],
    () => validation,
  );
  const slope = fromWire(validation.slope);
  const tools = (
    <>
      <Menu
        heading="Checked with a real step at"
        trigger={
          <Button small look="ghost">
            {shown.label}
            <Icon name="chevronDown" size={14} className="text-t3" />
          </Button>
        }
        items={checks.map(({ label, error }) => ({
          label,
          note: `error ${formatPercent(error, 1)}`,
          checked: label === shown.label,
          onSelect: () => setRate(label),
        }))}
      />
      <ExportMenu subject="the check" items={files} />
    </>
  );
  return (
    <Panel title="Predicted and actual" tools={tools} className="h-full" bodyClassName="px-3 pb-2">
      <p className="flex shrink-0 gap-3 pb-1 text-t3">
        <Figure name="r">{formatFixed(shown.correlation, 4)}</Figure>
        <Figure name="error">{formatPercent(shown.error, 1)}</Figure>
        {slope !== null && <Figure name="slope over lr">{formatFixed(slope, 2)}</Figure>}
      </p>
      <div ref={container} className="flex min-h-0 flex-1">
        <Scatter
          label={`Predicted against actual change of log π, ${ids.length} sequences, r ${formatFixed(shown.correlation, 4)}.`}
          x={shown.predicted}
          y={shown.actual}
          xLabel="predicted Δ log π"
          yLabel="actual"
          logX={false}
          logY={false}
          colour={null}
          diagonal
          nameOf={(index) => ids[index] ?? ""}
          named={NO_NAMES}
          selected={at < 0 ? null : at}
          onSelect={(index) => onSelect(ids[index] ?? "")}
          theme={theme}
        />
      </div>
    </Panel>
  );
}

const NO_NAMES: readonly number[] = [];

function Figure({ name, children }: { name: string; children: string }) {
  return (
    <span>
      {name} <span className="font-semibold text-text">{children}</span>
    </span>
  );
}

function NotChecked() {
  const text = (
    <>
      Add <code className="font-mono">validate_rates: [1.0e-4, 1.0e-5]</code> to the plan and run it again:
      real steps on copies show how accurate the prediction is.
    </>
  );
  return (
    <Panel
      title="Predicted and actual"
      className="h-full"
      state={{ kind: "empty", title: "Not checked yet", text }}
    />
  );
}
