/** The curves of a sample, large; sounds can be played. */
import type { SampleAddress } from "@/api/samples";
import { readSampleTensor } from "@/api/sampleTensor";
import type { SampleOut } from "@/api/types";
import { seriesColour } from "@/charts/colors/seriesColors";
import { canvasLook, useCanvas } from "@/charts/useCanvas";
import { useSize } from "@/charts/useSize";
import { formatCount, formatDuration, formatValue } from "@/lib/format";
import { useTheme } from "@/lib/theme";
import { curveOf, drawCurve, rangeOf, symmetric } from "@/samples/tiles/drawLines";
import { useObjectUrl } from "./useObjectUrl";
import { usePart } from "./usePart";
import { wavBytes } from "./wav";

interface LinesDetailProps {
  sample: SampleOut;
  address: SampleAddress;
}

export default function LinesDetail({ sample, address }: LinesDetailProps) {
  const { lines, sample_rate: rate } = sample;
  if (lines === null) return null;
  const length = formatCount(lines.length);
  const channels = lines.channels > 1 ? `${lines.channels} channels, ` : "";
  return (
    <>
      <Curves sample={sample} />
      <p className="text-t3">
        {channels}
        {rate === null
          ? `${length} values`
          : `${length} values at ${formatCount(rate)} Hz, ${formatDuration(lines.length / rate)}`}
      </p>
      {rate !== null && <Player sample={sample} address={address} rate={rate} />}
    </>
  );
}

function Curves({ sample }: { sample: SampleOut }) {
  const { lines } = sample;
  const [container, area] = useSize<HTMLDivElement>();
  useTheme(); // drawn again when it changes
  const curve = lines && curveOf(lines, 0);
  const whole = curve ? rangeOf([curve]) : ([0, 1] as [number, number]);
  const range = sample.kind === "audio" ? symmetric(whole) : whole;
  const canvas = useCanvas(area, ({ context, width, height, token }) => {
    if (curve === null) return;
    const series = Array.from({ length: curve.channels }, (_, at) => seriesColour(at));
    drawCurve(context, curve, { x: 0, y: 0, width, height }, { series, nan: token("nan"), range });
  });
  return (
    <div className="flex gap-2">
      <div className="flex flex-col justify-between text-right text-label text-t3">
        <span>{formatValue(range[1], 3)}</span>
        <span>{formatValue(range[0], 3)}</span>
      </div>
      <div ref={container} className="relative h-44 w-[640px] max-w-[70vw] bg-s2">
        <canvas
          ref={canvas}
          {...canvasLook(area)}
          role="img"
          aria-label={`Curve of sample ${sample.index}`}
        />
      </div>
    </div>
  );
}

interface PlayerProps extends LinesDetailProps {
  rate: number;
}

function Player({ sample, address, rate }: PlayerProps) {
  const load = async (signal: AbortSignal) => {
    const { shape, values } = await readSampleTensor(address, signal);
    const channels = shape.length > 1 ? (shape[0] as number) : 1;
    return new Blob([wavBytes(values, channels, Math.round(rate))], { type: "audio/wav" });
  };
  const { data, error } = usePart(load, sample.etag);
  const source = useObjectUrl(data);
  if (error !== null) return <p className="text-bad">{error}</p>;
  if (source === null) return null;
  return (
    // biome-ignore lint/a11y/useMediaCaption: a sample of a data set has no captions
    <audio controls src={source} className="h-9 w-full" aria-label={`Sound of sample ${sample.index}`} />
  );
}
