/** One sample of the batch as the loop saw it. */
import { useEffect, useState } from "react";
import { fromWire, type SampleOut } from "@/api/types";
import { formatCount, formatValue } from "@/lib/format";
import { type FullSample, useSample } from "@/live/batch";
import { Button, Dialog } from "@/ui";

interface SampleDialogProps {
  /** Index of the step. */
  step: number;
  /** Index in the batch. */
  index: number;
  id: number;
  onClose: () => void;
}

export default function SampleDialog({ step, index, id, onClose }: SampleDialogProps) {
  const { data, error } = useSample(step, index);
  return (
    <Dialog title={`Sample ${formatCount(id)}`} onClose={onClose} className="p-4">
      <div className="mt-2 flex min-h-40 min-w-80 flex-col gap-2">
        {error && <p className="text-bad">{error.message}</p>}
        {!error && !data && <p className="text-t3">Loading the sample…</p>}
        {data && <SampleBody {...data} />}
      </div>
      <div className="mt-3 flex justify-end">
        <Button data-autofocus onClick={onClose}>
          Close
        </Button>
      </div>
    </Dialog>
  );
}

function SampleBody({ sample, picture }: FullSample) {
  const address = useObjectUrl(picture);
  return (
    <>
      {address && (
        <img
          src={address}
          alt={`Sample ${sample.index}, ${sample.width} by ${sample.height} pixels`}
          // Transparent pixels are values that are not finite. Small images are enlarged, pixel by pixel.
          className="max-h-[480px] max-w-[720px] self-center bg-nan object-contain [image-rendering:pixelated]"
          style={{ width: enlarged(sample.width), height: enlarged(sample.height) }}
        />
      )}
      {!picture && sample.values && <Values sample={sample} />}
      <p className="text-t3">
        Step {formatCount(sample.step + 1)} · {sample.shape.join(" × ")}
        {rangeText(sample)}
      </p>
    </>
  );
}

/** Values that fit into the dialog; `format=safetensors` gives all of them. */
const MAX_VALUES = 512;

function Values({ sample }: { sample: SampleOut }) {
  const values = (sample.values ?? []).flat(8) as Parameters<typeof fromWire>[0][];
  const text = values.slice(0, MAX_VALUES).map((value) => formatValue(fromWire(value)));
  return (
    <pre className="max-h-[320px] max-w-[640px] overflow-auto font-mono whitespace-pre-wrap">
      {text.join("  ")}
      {values.length > MAX_VALUES ? " …" : ""}
    </pre>
  );
}

function rangeText({ low, high }: SampleOut): string {
  const [from, to] = [fromWire(low), fromWire(high)];
  return from === null || to === null ? "" : ` · ${formatValue(from)} to ${formatValue(to)}`;
}

/** A small image is shown larger by a whole factor. */
function enlarged(pixels: number | null): number | undefined {
  return pixels === null ? undefined : pixels * Math.max(1, Math.floor(320 / pixels));
}

/** An address for the bytes, as an image element cannot send a token. */
function useObjectUrl(blob: Blob | null): string | null {
  const [address, setAddress] = useState<string | null>(null);
  useEffect(() => {
    if (blob === null) return setAddress(null);
    const created = URL.createObjectURL(blob);
    setAddress(created);
    return () => URL.revokeObjectURL(created);
  }, [blob]);
  return address;
}
