import { markGradient, type Theme } from "@/charts/viridis";
import { formatFixed } from "@/lib/format";

interface LossLegendProps {
  low: number;
  high: number;
  decimals: number;
  theme: Theme;
}

/** What the colours of the loss bars mean. */
export function LossLegend({ low, high, decimals, theme }: LossLegendProps) {
  return (
    <span className="mr-2 flex items-center gap-2 text-label whitespace-nowrap text-t3">
      Loss <span>{formatFixed(low, decimals)}</span>
      <span className="h-2 w-16 rounded-mark" style={{ background: markGradient(theme) }} />
      <span>{formatFixed(high, decimals)}</span>
    </span>
  );
}
