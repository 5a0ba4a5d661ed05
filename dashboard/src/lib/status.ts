/** How a row is doing, by the levels that a panel hint names. */
import type { PanelOut } from "@/api/types";

export type StatusRule = NonNullable<PanelOut["status"]>;
export type StatusTone = StatusRule["otherwise"]["tone"];

export interface Status {
  word: string;
  tone: StatusTone;
}

/** The first level that holds for a value; null for none. */
export function statusOf(rule: StatusRule, value: number | null): Status | null {
  if (value === null || Number.isNaN(value)) return null;
  const level = rule.levels.find(
    ({ below, above }) => (below === null || value < below) && (above === null || value > above),
  );
  const { word, tone } = level ?? rule.otherwise;
  return word === "" ? null : { word, tone };
}

export interface StatusCount extends Status {
  count: number;
}

/** How many values each word holds for, in the order of the rule. */
export function countStatus(rule: StatusRule, values: ArrayLike<number | null>): StatusCount[] {
  const counts = new Map<string, StatusCount>();
  for (const { word, tone } of [...rule.levels, rule.otherwise]) {
    if (word !== "" && !counts.has(word)) counts.set(word, { word, tone, count: 0 });
  }
  for (let index = 0; index < values.length; index += 1) {
    const found = statusOf(rule, values[index] ?? null);
    const counted = found && counts.get(found.word);
    if (counted) counted.count += 1;
  }
  return [...counts.values()];
}

/** "dead" → "Dead", for a cell that stands alone. */
export function capitalised(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}
