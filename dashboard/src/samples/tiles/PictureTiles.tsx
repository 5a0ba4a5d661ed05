/** Images as tiles, with a mask over each where there is one. */
import { useCallback, useMemo } from "react";
import type { TileSheet } from "@/api/tiles";
import { pictureTile } from "@/charts/tiles/tileLayout";
import type { DrawBody } from "./drawTiles";
import { maskTokens, paintMask } from "./maskColors";
import { type SampleGridProps, TileGrid } from "./TileGrid";

export interface MaskChoice {
  layer: "mask" | "prediction";
  /** 0…1. */
  opacity: number;
}

interface PictureTilesProps extends SampleGridProps {
  sheet: TileSheet;
  /** Which mask is drawn; none for images without one. */
  mask: MaskChoice | null;
}

export default function PictureTiles({ sheet, mask, ...grid }: PictureTilesProps) {
  const { theme } = grid;
  const layer = mask === null ? undefined : sheet.layers.get(mask.layer);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the colours follow the theme
  const painted = useMemo(() => layer && paintMask(layer, maskTokens()), [layer, theme]);
  const opacity = mask?.opacity ?? 0;
  const drawBody = useCallback<DrawBody>(
    (context, sample, at, colours, ratio) => {
      const from = pictureTile(sheet.grid, sample.batchIndex - sheet.first);
      const draw = (source: CanvasImageSource) =>
        context.drawImage(source, from.x, from.y, from.width, from.height, at.x, at.y, at.width, at.height);
      // Pixels stay pixels when they are enlarged; a large image made small is averaged.
      context.imageSmoothingEnabled = sheet.grid.tile_width > at.width * ratio;
      context.imageSmoothingQuality = "high";
      if (sheet.hasGaps) {
        context.fillStyle = colours.nan;
        context.fillRect(at.x, at.y, at.width, at.height);
      }
      draw(sheet.picture);
      if (painted === undefined || opacity === 0) return;
      context.globalAlpha = opacity;
      draw(painted.areas);
      context.globalAlpha = 1;
      // A colour over a colour is a third one; the border says which class it is.
      draw(painted.borders);
    },
    [sheet, painted, opacity],
  );
  const aspect = sheet.grid.tile_width / sheet.grid.tile_height;
  return <TileGrid {...grid} aspect={aspect} drawBody={drawBody} />;
}
