/** The one line under the grid that describes the focused sample. */
import { formatCount, formatValue, plural } from "@/lib/format";
import { Button } from "@/ui";
import { NanMark } from "./NanMark";
import type { Sample } from "./samples";

interface SampleLineProps {
  sample: Sample | null;
  /** Samples in the batch. */
  count: number;
  /** Shows it at full size. */
  onOpen: () => void;
  onBreak: (id: number) => void;
  /** Why no breakpoint can be set now. */
  breakReason: string | null;
}

/** The sample in one sentence, as it is read out. */
export function sampleText({ id, label, prediction, loss, rank, broken }: Sample): string {
  const parts = [`Sample ${formatCount(id)}`];
  if (label !== null) parts.push(`label ${label}`);
  if (prediction !== null) parts.push(`prediction ${prediction}`);
  if (loss !== null) parts.push(`loss ${formatValue(loss)}`, `rank ${rank}`);
  if (broken > 0) parts.push(`NaN in ${plural(broken, "value")}`);
  return parts.join(", ");
}

export function SampleLine({ sample, count, onOpen, onBreak, breakReason }: SampleLineProps) {
  if (sample === null) {
    return (
      <p className="flex min-h-8 shrink-0 items-center px-3 text-t3">
        Click a sample, or move to one with the arrows, to see it here.
      </p>
    );
  }
  const rank = `${formatCount(sample.rank)} of ${formatCount(count)}`;
  const odd = sample.loss !== null && !Number.isFinite(sample.loss);
  return (
    <div className="flex min-h-8 shrink-0 items-center gap-x-4 px-3 @max-[480px]:flex-wrap">
      <span className="font-semibold whitespace-nowrap">Sample {formatCount(sample.id)}</span>
      {sample.label !== null && <Fact name="Label" value={sample.label} />}
      {sample.prediction !== null && (
        <Fact name="Prediction" value={sample.prediction} bad={sample.isRight === false} />
      )}
      {sample.loss !== null && (
        <Fact name="Loss" value={formatValue(sample.loss)} title={`rank ${rank}`} bad={odd} />
      )}
      {/* Beside a prediction there is no room for it. */}
      {sample.rank !== null && sample.prediction === null && <Fact name="Rank" value={rank} />}
      {sample.broken > 0 && (
        <span className="whitespace-nowrap text-t3">
          <NanMark /> in {plural(sample.broken, "value")}
        </span>
      )}
      <Button
        small
        look="ghost"
        className="-mr-2 ml-auto text-t2!"
        tooltip="Show this sample at full resolution (Enter)"
        onClick={onOpen}
      >
        Full size
      </Button>
      <Button
        small
        look="ghost"
        className={`-mr-2 ${breakReason === null ? "text-t2!" : ""}`}
        tooltip="Stop whenever this sample is in the batch"
        disabledReason={breakReason}
        onClick={() => onBreak(sample.id)}
      >
        Break on sample
      </Button>
    </div>
  );
}

interface FactProps {
  name: string;
  value: string;
  title?: string;
  bad?: boolean;
}

function Fact({ name, value, title = value, bad = false }: FactProps) {
  return (
    // A long answer gives way; figures are short.
    <span className={`truncate text-t3 ${value.length > 16 ? "min-w-16" : "shrink-0"}`} title={title}>
      {name} <span className={bad ? "font-medium text-bad" : "text-text"}>{value}</span>
    </span>
  );
}
