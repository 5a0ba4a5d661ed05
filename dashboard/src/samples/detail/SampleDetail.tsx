/** One sample as the loop saw it, at full resolution: what it is, its target, prediction and loss. */
import { type ComponentType, lazy, Suspense } from "react";
import type { SampleAddress } from "@/api/samples";
import { fromWire, type SampleOut } from "@/api/types";
import { formatCount, formatPercent, formatValue, plural } from "@/lib/format";
import type { SampleKind } from "@/samples/kinds";
import { NanMark } from "@/samples/NanMark";
import { lengthText } from "./lengthText";
import { Cell, Columns, Values } from "./ValuesDetail";

const ImageDetail = lazy(() => import("./ImageDetail"));
const FramesDetail = lazy(() => import("./FramesDetail"));
const TextDetail = lazy(() => import("./TextDetail"));
const LinesDetail = lazy(() => import("./LinesDetail"));

interface SampleDetailProps {
  sample: SampleOut;
  address: SampleAddress;
}

/** How each kind is shown; those that are left out show their values. */
const BODIES: Partial<Record<SampleKind, ComponentType<SampleDetailProps>>> = {
  images: ImageDetail,
  image_mask: ImageDetail,
  frames: FramesDetail,
  audio: LinesDetail,
  series: LinesDetail,
};

export function SampleDetail({ sample, address }: SampleDetailProps) {
  // Its further parts come from the same capture.
  const exact = { ...address, etag: sample.etag };
  const Body = BODIES[sample.kind];
  const isText = sample.text !== null || sample.tokens !== null;
  return (
    <>
      <Suspense fallback={<div className="min-h-40" />}>
        {Body && <Body sample={sample} address={exact} />}
        {isText && <TextDetail sample={sample} className="max-h-[420px] overflow-auto text-bar" />}
      </Suspense>
      {!Body && !isText && <Values sample={sample} />}
      <Facts sample={sample} />
      <Columns sample={sample} />
      {sample.note && <p className="max-w-[640px] text-warn">{sample.note}</p>}
      <p className="text-t3">
        Step {formatCount(sample.step + 1)}
        {isText ? ` · ${lengthText(sample)}` : sample.shape.length > 0 && ` · ${sample.shape.join(" × ")}`}
        {!isText && rangeText(sample)}
      </p>
    </>
  );
}

/** Target, prediction and loss, each on a line of its own: texts are long. */
function Facts({ sample }: { sample: SampleOut }) {
  const { label, prediction, probability, loss, loss_share: share, nonfinite } = sample;
  const sure = fromWire(probability);
  const part = fromWire(share);
  return (
    <dl className="grid max-w-[760px] grid-cols-[max-content_minmax(0,1fr)] gap-x-4 gap-y-1">
      {label !== null && <Fact name="Target" value={label} />}
      {prediction !== null && (
        <Fact
          name="Prediction"
          value={prediction}
          more={sure === null ? null : `p ${formatValue(sure, 3)}`}
        />
      )}
      {loss !== null && (
        <Fact
          name="Loss"
          value={loss}
          more={part === null ? null : `${formatPercent(part, 1)} of the batch's`}
        />
      )}
      {nonfinite > 0 && (
        <>
          <dt className="text-t3">Not finite</dt>
          <dd>
            <NanMark /> {plural(nonfinite, "value")}
          </dd>
        </>
      )}
    </dl>
  );
}

function Fact({ name, value, more = null }: { name: string; value: number | string; more?: string | null }) {
  return (
    <>
      <dt className="text-t3">{name}</dt>
      <dd className="max-h-40 overflow-auto font-medium whitespace-pre-wrap wrap-anywhere">
        <Cell value={value} />
        {more !== null && <span className="ml-2 font-normal text-t3">{more}</span>}
      </dd>
    </>
  );
}

function rangeText({ low, high, shape }: SampleOut): string {
  const [from, to] = [fromWire(low), fromWire(high)];
  return shape.length === 0 || from === null || to === null
    ? ""
    : ` · ${formatValue(from)} to ${formatValue(to)}`;
}
