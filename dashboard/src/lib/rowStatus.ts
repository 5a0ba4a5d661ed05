/** How a row is doing, by the levels that a panel hint names. */

export type StatusTone = "bad" | "warn" | "good" | "neutral";

export interface Status {
  word: string;
  tone: StatusTone;
}

/** One level: it holds for values below `below` and above `above`, where these are given. */
export interface StatusLevel extends Status {
  below: number | null;
  above: number | null;
}

/** The levels in the order in which they are tried, and what holds where none does. */
export interface StatusRule {
  /** Column whose values are judged. */
  field: string;
  levels: readonly StatusLevel[];
  otherwise: Status;
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
    const status = statusOf(rule, values[index] ?? null);
    const counted = status && counts.get(status.word);
    if (counted) counted.count += 1;
  }
  return [...counts.values()];
}

/** "dead" → "Dead", for a cell that stands alone. */
export function capitalised(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}
