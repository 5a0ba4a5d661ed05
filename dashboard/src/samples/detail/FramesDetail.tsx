/** All images of a sequence, one after the other. */
import { useEffect, useRef } from "react";
import { readSamplePicture, type SampleAddress } from "@/api/samples";
import { decodePicture } from "@/api/tiles";
import type { SampleOut } from "@/api/types";
import { pictureTile } from "@/charts/tiles/tileLayout";
import { usePart } from "./usePart";

const LEAST_PIXELS = 96;

export default function FramesDetail({ sample, address }: { sample: SampleOut; address: SampleAddress }) {
  const load = async (signal: AbortSignal) =>
    decodePicture(await readSamplePicture(address, "image", signal));
  const { data: picture, error } = usePart(load, sample.etag);
  const { frames, grid } = sample;
  if (error !== null) return <p className="text-bad">{error}</p>;
  if (frames === null || grid === null) return null;
  const isReduced = grid.stride > 1;
  return (
    <>
      <ol className="flex max-h-[480px] max-w-[760px] flex-wrap gap-2 overflow-auto">
        {Array.from({ length: frames.count }, (_, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: frames never change their order
          <li key={index} className="flex flex-col items-center text-label text-t3">
            {picture && <Frame picture={picture} grid={grid} index={index} />}
            {frames.word} {index}
          </li>
        ))}
      </ol>
      {isReduced && (
        <p className="text-t3">Every {grid.stride}th pixel: the sequence is too large to be shown in full.</p>
      )}
    </>
  );
}

interface FrameProps {
  picture: ImageBitmap;
  grid: NonNullable<SampleOut["grid"]>;
  index: number;
}

function Frame({ picture, grid, index }: FrameProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { width, height } = { width: grid.tile_width, height: grid.tile_height };
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    const from = pictureTile(grid, index);
    context?.clearRect(0, 0, width, height);
    context?.drawImage(picture, from.x, from.y, width, height, 0, 0, width, height);
  }, [picture, grid, index, width, height]);
  const factor = Math.max(1, Math.floor(LEAST_PIXELS / width));
  return (
    <canvas
      ref={canvas}
      width={width}
      height={height}
      role="img"
      aria-label={`Image ${index} of the sequence`}
      className="bg-nan [image-rendering:pixelated]"
      style={{ width: width * factor, height: height * factor }}
    />
  );
}
