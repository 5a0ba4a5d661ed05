/** Changes in nats as the page writes them. */
import { formatExponent, formatFixed, NONE } from "@/lib/format";

/** With its sign: +0.0412, −0.0105, +3.1e−5. */
export function formatNats(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  if (!Number.isFinite(value)) return formatFixed(value, 0);
  const sign = value > 0 ? "+" : "";
  if (value !== 0 && Math.abs(value) < 1e-3) return sign + formatExponent(value, 2);
  return sign + formatFixed(value, 4);
}
