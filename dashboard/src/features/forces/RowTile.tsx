/** One row of a tensor on its own symmetric scale: an image, or bars. */
import { useLayoutEffect, useMemo, useRef } from "react";
import type { Theme } from "@/charts/colors/viridis";
import { largestOf, signedImage } from "@/charts/tiles/imageTile";
import { formatValue } from "@/lib/format";
import { barsOf, pixelsPer, type RowPicture } from "./rowImageShape";

interface RowTileProps {
  title: string;
  values: Float64Array;
  /** Null for bars. */
  picture: RowPicture | null;
  /** Longest side in CSS pixels. */
  room: number;
  theme: Theme;
}

export function RowTile({ title, values, picture, room, theme }: RowTileProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const largest = useMemo(() => largestOf(values), [values]);
  const broken = useMemo(() => values.some((value) => !Number.isFinite(value)), [values]);
  const scale = picture && pixelsPer(picture, room);
  const width = picture && scale ? picture.width * scale : room;
  const height = picture && scale ? picture.height * scale : room;
  useLayoutEffect(() => {
    const element = canvas.current;
    if (!element || room <= 0) return;
    if (picture) drawImage(element, values, picture, theme);
    else drawBars(element, values, room, largest);
  }, [values, picture, room, theme, largest]);
  const range = `±${formatValue(largest, 3)}`;
  return (
    <figure className="flex min-w-0 flex-col" style={{ width: room }}>
      <figcaption className="flex h-[18px] justify-between text-label text-t2">
        <span>{title}</span>
        <span className={broken ? "text-bad" : "text-t3"}>{broken ? "NaN" : range}</span>
      </figcaption>
      <div className="flex items-center justify-center bg-s2" style={{ width: room, height: room }}>
        <canvas
          ref={canvas}
          role="img"
          aria-label={`${title}, ${picture ? `${picture.height} by ${picture.width}` : `${values.length} values`}, ${broken ? "with NaN" : range}`}
          data-force={title.toLowerCase()}
          className="block"
          style={{ width, height, imageRendering: "pixelated" }}
        />
      </div>
    </figure>
  );
}

function drawImage(
  element: HTMLCanvasElement,
  values: Float64Array,
  { width, height }: RowPicture,
  theme: Theme,
): void {
  element.width = width;
  element.height = height;
  element.getContext("2d")?.putImageData(signedImage(values, width, height, theme), 0, 0);
}

function drawBars(element: HTMLCanvasElement, values: Float64Array, room: number, largest: number): void {
  const ratio = devicePixelRatio;
  element.width = room * ratio;
  element.height = room * ratio;
  const context = element.getContext("2d");
  if (!context) return;
  const style = getComputedStyle(element);
  const bars = barsOf(values, room);
  const middle = element.height / 2;
  const per = largest > 0 ? (middle - 2 * ratio) / largest : 0;
  const pitch = element.width / bars.length;
  const gap = pitch >= 4 * ratio ? ratio : 0;
  context.fillStyle = style.getPropertyValue("--series-1").trim();
  bars.forEach(({ low, high }, index) => {
    context.fillRect(index * pitch, middle - high * per, Math.max(pitch - gap, 1), (high - low) * per || 1);
  });
  context.fillStyle = style.getPropertyValue("--line3").trim();
  context.fillRect(0, Math.round(middle), element.width, ratio);
}
