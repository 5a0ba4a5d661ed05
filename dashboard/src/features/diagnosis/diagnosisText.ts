/** Numbers and words of a diagnosis. */
import { type DiagnosedChange, type DiagnosedLayer, fromWire, type WireNumber as Wire } from "@/api/types";
import { formatCount, formatPercent, formatRate, formatValue, NONE, plural } from "@/lib/format";

/** A value of a change as it is written for its kind. */
export function changeValue({ key }: DiagnosedChange, value: Wire | null): string {
  const number = fromWire(value);
  if (number === null) return NONE;
  if (key === "batch_size" || key === "inputs") return formatCount(number);
  if (key === "loss_share" || key === "dead") return formatPercent(number);
  return key.startsWith("lr") ? formatRate(number) : formatValue(number, 3);
}

/** Share of values that are not finite, in percent: 0.33, 100.00. */
export function badShare(layer: DiagnosedLayer): string {
  const share = fromWire(layer.bad);
  if (share === null) return NONE;
  // Not 0.00 for what is there.
  return share > 0 && share < 5e-5 ? "< 0.01" : (share * 100).toFixed(2);
}

/** "1 source · 9 not finite". */
export function layerCounts(layers: readonly DiagnosedLayer[]): string {
  const sources = layers.filter(({ status }) => status === "source").length;
  const broken = layers.filter(({ status }) => status === "first" || status === "carries").length;
  const parts = sources > 0 ? [plural(sources, "source")] : [];
  return [...parts, `${formatCount(broken)} not finite`].join(" · ");
}

/** The points of a line in a box, in the order of the steps; null where a value is unknown or not finite. */
export function linePoints(
  line: readonly (Wire | null)[],
  width: number,
  height: number,
): ({ x: number; y: number } | null)[] {
  const values = line.map((value) => fromWire(value));
  const known = values.filter((value): value is number => value !== null && Number.isFinite(value));
  const low = Math.min(...known);
  const span = Math.max(...known) - low;
  const pitch = width / Math.max(1, line.length - 1);
  return values.map((value, index) =>
    value === null || !Number.isFinite(value)
      ? null
      : { x: index * pitch, y: span > 0 ? height * (1 - (value - low) / span) : height / 2 },
  );
}
