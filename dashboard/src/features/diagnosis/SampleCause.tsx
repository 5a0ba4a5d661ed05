/** The sample at fault: what is not finite of it, its picture, and what the first bad layer made of it. */
import { type ReactNode, useEffect, useRef } from "react";
import { type Diagnosis, fromWire, type Plane, type WireNumber } from "@/api/types";
import { plainImage, signedImage } from "@/charts/tiles/imageTile";
import { formatCount, formatValue } from "@/lib/format";
import { useTheme } from "@/lib/theme";
import { useDiagnosis } from "@/live/diagnosis";
import { Button, Icon } from "@/ui";

const PICTURE = 112;

export interface CausedSample {
  id: number;
  label: string | null;
  loss: number | null;
  batchIndex: number;
}

interface SampleCauseProps {
  sample: CausedSample;
  onOpen: () => void;
  onBreak: (id: number) => void;
  breakReason: string | null;
}

export default function SampleCause(props: SampleCauseProps) {
  const diagnosis = useDiagnosis();
  return diagnosis === null ? null : <SampleCauseView {...props} diagnosis={diagnosis} />;
}

export function SampleCauseView(props: SampleCauseProps & { diagnosis: Diagnosis }) {
  const { sample, diagnosis, onOpen, onBreak, breakReason } = props;
  const { pictures, batch_size: count } = diagnosis;
  const shown = pictures?.position === sample.batchIndex ? pictures : null;
  const inputs = diagnosis.inputs.filter(({ position }) => position === sample.batchIndex);
  return (
    <section
      aria-label={`Sample ${sample.id}`}
      className="flex shrink-0 gap-4 border-t border-line px-3 pt-2 pb-3"
    >
      {shown !== null && (
        <div className="flex items-end gap-2">
          {shown.input !== null && <Picture name="Input" plane={shown.input} />}
          {shown.input !== null && shown.output !== null && (
            <Icon name="chevronRight" size={16} className="mb-12 text-t3" />
          )}
          {shown.output !== null && (
            <Picture name={`${shown.output_of || "Model"} output`} plane={shown.output} />
          )}
        </div>
      )}
      <div className="flex min-w-0 flex-1 flex-col">
        <p className="flex flex-wrap gap-x-4 text-t3">
          <span className="font-semibold text-text">
            {diagnosis.has_ids ? "Sample" : "Position"} {formatCount(sample.id)}
          </span>
          {sample.label !== null && (
            <span>
              Label <span className="text-text">{sample.label}</span>
            </span>
          )}
          {sample.loss !== null && (
            <span>
              Loss{" "}
              <span className={Number.isFinite(sample.loss) ? "text-text" : "font-medium text-bad"}>
                {formatValue(sample.loss)}
              </span>
            </span>
          )}
          {count > 0 && (
            <span>
              Place{" "}
              <span className="text-text">
                {formatCount(sample.batchIndex + 1)} of {formatCount(count)}
              </span>
            </span>
          )}
        </p>
        <dl className="mt-1.5 grid grid-cols-[88px_minmax(0,1fr)] gap-y-0.5">
          {inputs.map((input) => (
            <Found key={input.field} {...input} several={inputs.length > 1} />
          ))}
        </dl>
        <div className="mt-auto -ml-2 flex gap-2 pt-1">
          <Button small look="ghost" onClick={onOpen}>
            Full size
          </Button>
          <Button small look="ghost" disabledReason={breakReason} onClick={() => onBreak(sample.id)}>
            Break on sample
          </Button>
        </div>
      </div>
    </section>
  );
}

function Found(input: Diagnosis["inputs"][number] & { several: boolean }) {
  const { field, bad, of, what, where, low, high, several } = input;
  const rest = low === null ? "none is finite" : `${text(low)} to ${text(high)}`;
  return (
    <>
      <Fact name={several ? `Not finite, ${field}` : "Not finite"}>
        <span className="font-medium text-bad">
          {formatCount(bad)} of {formatCount(of)} values
        </span>
        {where !== "" && `, ${where}`}, {what}
      </Fact>
      <Fact name="The rest">{rest}</Fact>
    </>
  );
}

const text = (value: WireNumber | null) => formatValue(fromWire(value), 3);

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt className="text-t3">{name}</dt>
      <dd className="truncate">{children}</dd>
    </>
  );
}

const NOT_FINITE = 255;
const LEVELS = 254;

/** The values of a plane; what is not finite is NaN. */
export function planeValues({ levels, low, high }: Plane): Float64Array {
  const [from, to] = [fromWire(low) ?? 0, fromWire(high) ?? 0];
  const bytes = Uint8Array.from(atob(levels), (letter) => letter.charCodeAt(0));
  return Float64Array.from(bytes, (level) =>
    level === NOT_FINITE ? Number.NaN : from + ((to - from) * level) / LEVELS,
  );
}

function Picture({ name, plane }: { name: string; plane: Plane }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  const { width, height, signed } = plane;
  const [low, high] = [fromWire(plane.low) ?? 0, fromWire(plane.high) ?? 0];
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    const values = planeValues(plane);
    const image = signed
      ? signedImage(values, width, height, theme)
      : plainImage(values, 0, { channels: 1, width, height }, low, high);
    context.putImageData(image, 0, 0);
  }, [plane, theme, width, height, signed, low, high]);
  const scale = PICTURE / Math.max(width, height);
  const range = signed ? `±${formatValue(high, 2)}` : `${formatValue(low, 2)} – ${formatValue(high, 2)}`;
  return (
    <figure className="flex flex-col gap-1">
      <figcaption className="flex max-w-28 justify-between gap-2 text-label text-t3">
        <span className="truncate">{name}</span>
        <span className="whitespace-nowrap">{range}</span>
      </figcaption>
      <canvas
        ref={canvas}
        width={width}
        height={height}
        role="img"
        aria-label={`${name}, values that are not finite in magenta`}
        style={{ width: width * scale, height: height * scale, imageRendering: "pixelated" }}
      />
    </figure>
  );
}
