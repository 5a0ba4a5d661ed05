/** Sounds and series as tiles; all of a batch have one scale, so that a loud one looks loud. */
import { useCallback, useMemo } from "react";
import type { BatchOut } from "@/api/types";
import { seriesColour } from "@/charts/colors/seriesColors";
import type { TileOptions } from "@/charts/tiles/tileLayout";
import { curveOf, drawCurve, type Lines, rangeOf, symmetric } from "./drawLines";
import type { DrawBody } from "./drawTiles";
import { type SampleGridProps, TileGrid } from "./TileGrid";

const OPTIONS: TileOptions = { smallest: 112, largest: 292, gap: 12, caption: 20 };
const ASPECT = 3.2;

interface LineTilesProps extends SampleGridProps {
  kind: BatchOut["kind"];
  lines: Lines;
}

export default function LineTiles({ kind, lines, ...grid }: LineTilesProps) {
  const { samples, theme } = grid;
  const { curves, range } = useMemo(() => {
    const all = lines.low.map((_, row) => curveOf(lines, row));
    const whole = rangeOf(all);
    return { curves: all, range: kind === "audio" ? symmetric(whole) : whole };
  }, [lines, kind]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the colours follow the theme
  const series = useMemo(
    () => Array.from({ length: lines.channels }, (_, at) => seriesColour(at)),
    [lines, theme],
  );
  const drawBody = useCallback<DrawBody>(
    (context, sample, at, colours) => {
      context.fillStyle = colours.empty;
      context.fillRect(at.x, at.y, at.width, at.height);
      const curve = curves[sample.batchIndex - samples.first];
      if (curve) drawCurve(context, curve, at, { series, nan: colours.nan, range });
    },
    [curves, range, samples.first, series],
  );
  return <TileGrid {...grid} aspect={ASPECT} options={OPTIONS} drawBody={drawBody} />;
}
