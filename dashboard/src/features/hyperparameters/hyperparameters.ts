/** Hyperparameters as one types them, as they travel, and back to what they were. */
import { formatRate } from "@/lib/format";
import { parseNumber } from "@/ui/Field";

export type HparamName = "lr" | "weight_decay" | "momentum";
export type Hparams = Partial<Record<HparamName, number>>;

export const NAMES: readonly { name: HparamName; label: string }[] = [
  { name: "lr", label: "Learning rate" },
  { name: "weight_decay", label: "Weight decay" },
  { name: "momentum", label: "Momentum" },
];

/** What to send, or the first field that does not do; name null when nothing was typed. */
export function payloadOf(
  typed: Partial<Record<HparamName, string>>,
): { payload: Hparams } | { name: HparamName | null; problem: string } {
  const payload: Hparams = {};
  for (const { name } of NAMES) {
    const text = (typed[name] ?? "").trim();
    if (text === "") continue;
    const value = parseNumber(text, false);
    if (value === null || !Number.isFinite(value) || value < 0)
      return { name, problem: "Enter a number, 0 or more" };
    payload[name] = value;
  }
  return Object.keys(payload).length ? { payload } : { name: null, problem: "Enter at least one value" };
}

/** "lr 5.0e−4, momentum 0.9" */
export function wordsOf(payload: Hparams): string {
  return Object.entries(payload)
    .map(([name, value]) => `${name.replaceAll("_", " ")} ${formatRate(value)}`)
    .join(", ");
}

/** The command that brings the old values back; null where groups differed, which one value cannot restore. */
export function undoOf(result: unknown): Hparams | null {
  const answer = within(result);
  const payload: Hparams = {};
  for (const { name } of NAMES) {
    const values = answer[name];
    if (values === undefined) continue;
    const list = Array.isArray(values) ? values : [values];
    const [first] = list;
    if (typeof first !== "number" || list.some((value) => value !== first)) return null;
    payload[name] = first;
  }
  return Object.keys(payload).length ? payload : null;
}

/** The old values, plain or under `old`. */
function within(result: unknown): Record<string, unknown> {
  if (result === null || typeof result !== "object") return {};
  const held = result as Record<string, unknown>;
  return held.old !== null && typeof held.old === "object" ? (held.old as Record<string, unknown>) : held;
}
