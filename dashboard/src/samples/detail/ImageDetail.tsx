/** An image at full resolution, with its mask over it. */
import { useEffect, useRef } from "react";
import { readSamplePicture, type SampleAddress } from "@/api/samples";
import { decodePicture } from "@/api/tiles";
import type { SampleOut } from "@/api/types";
import { useTheme } from "@/lib/theme";
import { MaskLegend } from "@/samples/MaskLegend";
import { MaskTools, useMaskChoice } from "@/samples/MaskTools";
import { maskTokens, paintMask } from "@/samples/tiles/maskColors";
import { useObjectUrl } from "./useObjectUrl";
import { usePart } from "./usePart";

/** Longest side up to which an image is enlarged, and the room that the dialog has. */
const SMALL = 320;
const LARGEST = { width: 720, height: 480 };

interface ImageDetailProps {
  sample: SampleOut;
  address: SampleAddress;
}

export default function ImageDetail({ sample, address }: ImageDetailProps) {
  const { mask } = sample;
  const [choice, controls] = useMaskChoice(mask);
  const picture = usePart((signal) => readSamplePicture(address, "image", signal), sample.etag);
  const source = useObjectUrl(picture.data);
  const size = shownSize(sample.width ?? 0, sample.height ?? 0);
  if (picture.error !== null) return <p className="text-bad">{picture.error}</p>;
  return (
    <>
      {mask && (
        <div className="flex items-center gap-2">
          <MaskTools mask={mask} controls={controls} />
        </div>
      )}
      <div className="relative self-center" style={size}>
        {source && (
          <img
            src={source}
            alt={`Sample ${sample.index}, ${sample.width} by ${sample.height} pixels`}
            // Transparent pixels are values that are not finite. Small images are enlarged, pixel by pixel.
            className="size-full bg-nan [image-rendering:pixelated]"
          />
        )}
        {choice && (
          <MaskLayer sample={sample} address={address} layer={choice.layer} opacity={choice.opacity} />
        )}
      </div>
      {mask && <MaskLegend mask={mask} />}
    </>
  );
}

interface MaskLayerProps extends ImageDetailProps {
  layer: "mask" | "prediction";
  opacity: number;
}

function MaskLayer({ sample, address, layer, opacity }: MaskLayerProps) {
  const theme = useTheme();
  const canvas = useRef<HTMLCanvasElement>(null);
  const load = async (signal: AbortSignal) => decodePicture(await readSamplePicture(address, layer, signal));
  const { data: picture } = usePart(load, `${sample.etag} ${layer}`);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the colours follow the theme
  useEffect(() => {
    const element = canvas.current;
    if (!picture || !element) return;
    element.width = picture.width;
    element.height = picture.height;
    const context = element.getContext("2d");
    if (context === null || opacity === 0) return;
    const { areas, borders } = paintMask(picture, maskTokens());
    context.globalAlpha = opacity;
    context.drawImage(areas, 0, 0);
    context.globalAlpha = 1;
    context.drawImage(borders, 0, 0);
  }, [picture, theme, opacity]);
  return (
    <canvas
      ref={canvas}
      role="img"
      aria-label={`Mask of sample ${sample.index}`}
      className="absolute inset-0 size-full [image-rendering:pixelated]"
    />
  );
}

/** A small image is shown larger by a whole factor, a large one smaller; its sides keep their ratio. */
export function shownSize(width: number, height: number): { width: number; height: number } {
  const whole = Math.floor(SMALL / Math.max(width, height, 1));
  const factor = whole >= 1 ? whole : Math.min(1, LARGEST.width / width, LARGEST.height / height);
  return { width: Math.round(width * factor), height: Math.round(height * factor) };
}
