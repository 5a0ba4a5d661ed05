/** The text under the cursor in full: from the whole batch while the run is paused, else what the row has. */
import { formatCount } from "@/lib/format";
import { useSample } from "@/live/batch";
import { lengthText } from "@/samples/detail/lengthText";
import TextDetail from "@/samples/detail/TextDetail";
import type { Sample } from "@/samples/samples";

interface FocusedTextProps {
  /** Index of the step. */
  step: number;
  sample: Sample | null;
  /** The beginning of its text; null where only its tokens are known. */
  text: string | null;
  running: boolean;
}

export default function FocusedText({ step, sample, text, running }: FocusedTextProps) {
  // A running run would have to copy its whole batch for this.
  const { data } = useSample(step, running || sample === null ? null : sample.batchIndex);
  if (sample === null) return null;
  const whole = data?.index === sample.batchIndex ? data : null;
  const shown = whole ?? { text: text ?? "", tokens: null, pieces: null };
  return (
    <section
      aria-label={`Text of sample ${sample.id}`}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by keyboard
      tabIndex={0}
      className="max-h-[45%] min-h-16 shrink-0 overflow-auto border-t border-line px-3 py-2"
    >
      <p className="mb-1 text-label text-t3">
        <span className="font-mono text-text">{formatCount(sample.id)}</span>{" "}
        {whole === null ? "the beginning; pause the run to read all of it" : lengthText(shown)}
      </p>
      {whole && <Answer name="Target" answer={whole.label} />}
      {whole && <Answer name="Prediction" answer={whole.prediction} />}
      <TextDetail sample={shown} />
    </section>
  );
}

/** Answers that the line below has room for. */
const SHORT = 32;

function Answer({ name, answer }: { name: string; answer: number | string | null }) {
  const text = String(answer ?? "");
  if (text.length <= SHORT) return null;
  return (
    <p className="mb-1 whitespace-pre-wrap wrap-anywhere">
      <span className="text-label text-t3">{name}</span> <span className="font-medium">{text}</span>
    </p>
  );
}
