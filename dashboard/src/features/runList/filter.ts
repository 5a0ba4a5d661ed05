/** Which runs are listed: words that must occur, and conditions such as `lr=0.001`, shown as chips. */
import type { RunRow } from "@/api/types";
import { cellOf, isOwn } from "./values";

export type Operator = "=" | "!=" | "<" | "<=" | ">" | ">=";

export interface Condition {
  key: string;
  operator: Operator;
  value: string;
}

const CONDITION = /^([A-Za-z_][\w./-]*)\s*(!=|<=|>=|=|<|>)\s*(.+)$/;

/** Reads `lr<=0.001`, `state=running`, `tag=baseline`; null for plain words. */
export function readCondition(text: string): Condition | null {
  const match = CONDITION.exec(text.trim());
  if (match === null) return null;
  const [, key, operator, value] = match as unknown as [string, string, Operator, string];
  return { key, operator, value: value.trim() };
}

export const writeCondition = ({ key, operator, value }: Condition): string => `${key}${operator}${value}`;

/** Splits what was typed into conditions and the words that are left. */
export function readFilter(text: string): { conditions: Condition[]; words: string } {
  const conditions: Condition[] = [];
  const words: string[] = [];
  for (const part of text.split(/\s+/).filter(Boolean)) {
    const condition = readCondition(part);
    if (condition === null) words.push(part);
    else conditions.push(condition);
  }
  return { conditions, words: words.join(" ") };
}

/** The name without its `config.` or `summary.`, as a chip writes it. */
export const chipKey = (key: string): string => key.replace(/^(config|summary)\./, "");

function holds(cell: string | number, { operator, value }: Condition): boolean {
  const wanted = Number(value);
  const size = typeof cell === "number" ? cell : Number(cell);
  const bothNumbers = value !== "" && !Number.isNaN(wanted) && !Number.isNaN(size);
  switch (operator) {
    case "=":
      return bothNumbers ? size === wanted : String(cell).toLowerCase() === value.toLowerCase();
    case "!=":
      return bothNumbers ? size !== wanted : String(cell).toLowerCase() !== value.toLowerCase();
    case "<":
      return bothNumbers && size < wanted;
    case "<=":
      return bothNumbers && size <= wanted;
    case ">":
      return bothNumbers && size > wanted;
    default:
      return bothNumbers && size >= wanted;
  }
}

/** Whether a run fulfils a condition. Several states or tags may be named, with commas between them. */
export function fulfils(run: RunRow, condition: Condition): boolean {
  const { key, operator, value } = condition;
  if (key === "tag" || key === "tags" || key === "state") {
    const wanted = value.toLowerCase().split(",");
    const own = (key === "state" ? [run.state] : run.tags).map((one) => one.toLowerCase());
    const any = own.some((one) => wanted.includes(one));
    return operator === "!=" ? !any : any;
  }
  const cell = cellOf(run, key);
  if (cell === null || cell === undefined)
    return value.toLowerCase() === "none" ? operator !== "!=" : operator === "!=";
  return holds(typeof cell === "boolean" ? String(cell) : cell, condition);
}

function textOf(run: RunRow): string {
  const settings = Object.entries(run.config).map(([key, value]) => `${key}=${value}`);
  const said = [run.name, run.state, run.directory, run.id, run.recipe ?? "", run.host ?? "", run.note];
  return [...said, ...run.tags, ...settings].join("\n").toLowerCase();
}

/** The runs that fulfil every condition and hold every word. */
export function filterRuns(
  runs: readonly RunRow[],
  conditions: readonly Condition[],
  text: string,
): RunRow[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return runs.filter((run) => {
    if (!conditions.every((condition) => fulfils(run, condition))) return false;
    if (words.length === 0) return true;
    const own = textOf(run);
    return words.every((word) => own.includes(word));
  });
}

/** Whether any run has such a value at all, so that a mistyped key can be marked. */
export function isKnownKey(runs: readonly RunRow[], key: string): boolean {
  return isOwn(key) || key === "tag" || runs.some((run) => cellOf(run, key) !== undefined);
}
