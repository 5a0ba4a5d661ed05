/** Images that a hook pushed, in a grid with their labels. */
import { useEffect, useMemo, useRef } from "react";
import type { Theme } from "@/charts/colors/viridis";
import { plainImage, signedImage } from "@/charts/tiles/imageTile";
import { layOutTiles, tileAt } from "@/charts/tiles/tileLayout";
import { useSize } from "@/charts/useSize";
import { formatCount, formatValue, plural } from "@/lib/format";
import { summarise } from "@/lib/statistics";
import { type ImageSet, imagesOf } from "./hint";
import { PanelExport, PanelFrame, type PanelFrameProps } from "./PanelFrame";

/** More are counted, not drawn. */
const MAX_SHOWN = 512;
const TILES = { smallest: 28, largest: 160, gap: 8, caption: 16 };

export function ImagesPanel(props: PanelFrameProps) {
  const { entry, theme } = props;
  const images = useMemo(() => imagesOf(entry), [entry]);
  const container = useRef<HTMLDivElement>(null);
  if (images === null)
    return (
      <PanelFrame {...props} fact="" tools={null}>
        <p className="px-3 py-1 text-t3">This data cannot be shown as images.</p>
      </PanelFrame>
    );
  const shown = Math.min(images.count, MAX_SHOWN);
  const { minimum, maximum } = summarise(images.values);
  const fact = [
    shown < images.count ? `${shown} of ${formatCount(images.count)} images` : plural(images.count, "image"),
    `${formatValue(minimum, 2)} to ${formatValue(maximum, 2)}`,
    `step ${formatCount(entry.step)}`,
  ].join(" · ");
  return (
    <PanelFrame
      {...props}
      fact={fact}
      tools={<PanelExport entry={entry} container={container} columns={() => imageColumns(images)} />}
    >
      <div ref={container} className="flex min-h-0 flex-1">
        <ImageGrid images={images} shown={shown} low={minimum} high={maximum} theme={theme} />
      </div>
    </PanelFrame>
  );
}

interface ImageGridProps {
  images: ImageSet;
  shown: number;
  low: number;
  high: number;
  theme: Theme;
}

function ImageGrid({ images, shown, low, high, theme }: ImageGridProps) {
  const [container, area] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const layout = useMemo(
    () =>
      layOutTiles(
        shown,
        { width: area.width - 24, height: area.height },
        images.width / images.height,
        TILES,
      ),
    [shown, area.width, area.height, images.width, images.height],
  );
  useEffect(() => {
    const element = canvas.current;
    if (!element || area.width <= 24) return;
    const ratio = devicePixelRatio;
    element.width = (area.width - 24) * ratio;
    element.height = layout.totalHeight * ratio;
    const context = element.getContext("2d");
    if (!context) return;
    context.scale(ratio, ratio);
    context.imageSmoothingEnabled = false;
    context.font = "10px Inter, system-ui, sans-serif";
    context.fillStyle = getComputedStyle(element).getPropertyValue("--t3").trim();
    const tile = new OffscreenCanvas(images.width, images.height);
    for (let index = 0; index < shown; index += 1) {
      tile.getContext("2d")?.putImageData(pictureOf(images, index, low, high, theme), 0, 0);
      const { x, y, width, height } = tileAt(layout, index);
      context.drawImage(tile, x, y, width, height);
      context.fillText(images.labels?.[index] ?? String(index), x, y + height + 11, width + TILES.gap);
    }
  }, [images, shown, low, high, theme, layout, area.width]);
  return (
    <div
      ref={container}
      role="img"
      aria-label={`${shown} images`}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
      tabIndex={0}
      data-keys="own"
      className="min-h-0 flex-1 overflow-x-hidden overflow-y-auto px-3"
    >
      <canvas
        ref={canvas}
        className="block"
        style={{ width: Math.max(area.width - 24, 0), height: layout.totalHeight }}
      />
    </div>
  );
}

/** One image; signed values in the colours of signed values. */
function pictureOf(images: ImageSet, index: number, low: number, high: number, theme: Theme): ImageData {
  const { channels, width, height, values } = images;
  const start = index * channels * width * height;
  if (channels === 3 || low >= 0) return plainImage(values, start, images, low, high);
  const part = Float64Array.from({ length: width * height }, (_, offset) => values[start + offset] as number);
  return signedImage(part, width, height, theme);
}

function imageColumns({ count, channels, width, height, values, labels }: ImageSet) {
  const size = channels * width * height;
  return Array.from({ length: count }, (_, index) => ({
    name: labels?.[index] ?? String(index),
    cells: Array.from({ length: size }, (_, offset) => values[index * size + offset]),
  }));
}
