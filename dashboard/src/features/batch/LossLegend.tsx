import { markGradient, type Theme } from "@/charts/colors/viridis";
import { formatFixed, type TileScale } from "@/lib/format";

interface LossLegendProps {
  low: number;
  high: number;
  scale: TileScale;
  theme: Theme;
}

/** What the colours of the loss bars mean, and in what the losses below the tiles are written. */
export function LossLegend({ low, high, scale: { factor, unit }, theme }: LossLegendProps) {
  const decimals = high * factor >= 9.995 ? 1 : 2;
  return (
    <span className="mr-2 flex @max-[420px]:mr-0 items-center gap-2 text-label whitespace-nowrap text-t3">
      Loss {unit} <span>{formatFixed(low * factor, decimals)}</span>
      <span className="h-2 w-16 rounded-mark @max-[420px]:w-8" style={{ background: markGradient(theme) }} />
      <span>{formatFixed(high * factor, decimals)}</span>
    </span>
  );
}
