/** Values of a horizontal axis in words: steps, epochs, time. */
import type { CurveAxis } from "@/api/scalars";
import { formatCount, formatFixed } from "@/lib/format";
import { shortest, timeLabel } from "./curveValues";

const thousands = (value: number) => (value === 0 ? "0" : `${formatCount(value / 1_000)}k`);
const wholes = (value: number) => (Number.isInteger(value) ? formatCount(value) : "");

/** Ticks; `span` is the length of the axis. */
export const X_TEXTS: Record<CurveAxis, (value: number, span: number) => string> = {
  step: (value, span) => (span >= 10_000 && value % 1_000 === 0 ? thousands(value) : wholes(value)),
  epoch: shortest,
  time: timeLabel,
};

/** Choices of a horizontal axis. */
export const X_CHOICES = [
  { value: "step", label: "Step" },
  { value: "epoch", label: "Epoch" },
  { value: "time", label: "Time" },
] as const satisfies readonly { value: CurveAxis; label: string }[];

export const AXES = ["step", "epoch", "time"] as const;

/** A point of the axis: "step 12,794", "epoch 3.25", "12.5 min". */
export function axisPoint(x: CurveAxis, value: number, span: number): string {
  if (x === "time") return timeLabel(value, span);
  if (x === "step") return `step ${formatCount(value)}`;
  return `epoch ${Number.isInteger(value) ? formatCount(value) : formatFixed(value, 2)}`;
}

/** The least part of an axis that can be shown; steps are whole. */
export function narrowestOf(x: CurveAxis, [from, to]: readonly [number, number]): number | undefined {
  return x === "step" ? undefined : Math.min(0.5, (to - from) / 1_000);
}

/** A zoomed range as it stands in the address: `100-200`, `0.5-1.25`; null shows everything. */
export function readSpan(text: string): readonly [number, number] | null {
  const match = /^(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(text);
  if (match === null) return null;
  const [from, to] = [Number(match[1]), Number(match[2])];
  return to > from ? [from, to] : null;
}

export function spanText(range: readonly [number, number] | null): string {
  return range === null ? "" : range.map((end) => Number(Math.max(0, end).toFixed(6))).join("-");
}
