/** Conditions of breakpoints: the fields one types, the condition they make, and its words. */

import type { BreakpointAction, Condition } from "@/api/types";
import { formatCount } from "@/lib/format";
import { parseNumber } from "@/ui";

export type Kind = Condition["kind"];
export type Comparison = Extract<Condition, { kind: "metric" }>["op"];

/** The fields of the form, as typed. */
export interface Draft {
  kind: Kind;
  /** Stop the run, or only mark the chart. */
  action: BreakpointAction;
  /** Name of the rule, where the kind is one. */
  rule: RuleName;
  step: string;
  n: string;
  limit: string;
  window: string;
  name: string;
  op: Comparison;
  value: string;
  ids: string;
  expression: string;
  /** Of rules: what is left empty is the rule's own choice. */
  low: string;
  every: string;
  layers: string;
  metric: string;
}

export type RuleName = Extract<Condition, { kind: "rule" }>["rule"];
export type Field = Exclude<keyof Draft, "kind" | "op" | "action" | "rule">;

export const EMPTY_DRAFT: Draft = {
  kind: "loss_z",
  action: "pause",
  rule: "vanishing_gradients",
  step: "",
  n: "100",
  limit: "4",
  window: "200",
  name: "loss",
  op: ">",
  value: "",
  ids: "",
  expression: "",
  low: "",
  every: "",
  layers: "",
  metric: "",
};

export interface KindChoice {
  kind: Kind;
  title: string;
  /** What the run does then, in one line under the menu. */
  hint: string;
}

/** Kinds with a form of their own; rules are listed by name below them. */
export const KINDS: readonly KindChoice[] = [
  { kind: "step", title: "Step reached", hint: "Stops when this many steps are finished." },
  { kind: "every", title: "Every n steps", hint: "Stops every n steps." },
  { kind: "loss_nonfinite", title: "Loss not finite", hint: "Stops when the loss is NaN or infinite." },
  {
    kind: "loss_z",
    title: "Loss z-score",
    hint: "Stops when the loss is this many standard deviations above its recent mean.",
  },
  { kind: "grad_norm", title: "Gradient norm", hint: "Stops when the gradient norm is above the limit." },
  { kind: "metric", title: "Metric", hint: "Stops when a logged metric passes this comparison." },
  { kind: "sample", title: "Sample seen", hint: "Stops when one of these samples was in the batch." },
  {
    kind: "expression",
    title: "Expression",
    hint: "Stops when it is true: loss > 2 and step > 100",
  },
];

export const COMPARISONS: readonly Comparison[] = ["<", "<=", ">", ">=", "==", "!="];

export interface FieldError {
  field: Field;
  message: string;
}

export type Parsed = { condition: Condition } | { error: FieldError };

/** The condition of a draft, or the first field that is not valid, and why. */
export function parseDraft(draft: Draft): Parsed {
  try {
    return { condition: conditionOf(draft) };
  } catch (problem) {
    if (problem instanceof BadField) return { error: { field: problem.field, message: problem.message } };
    throw problem;
  }
}

class BadField extends Error {
  constructor(
    readonly field: Field,
    message: string,
  ) {
    super(message);
  }
}

function conditionOf(draft: Draft): Condition {
  switch (draft.kind) {
    case "step":
      return { kind: "step", step: whole(draft, "step", 0) };
    case "every":
      return { kind: "every", n: whole(draft, "n", 1) };
    case "loss_nonfinite":
      return { kind: "loss_nonfinite" };
    case "loss_z":
      return { kind: "loss_z", limit: positive(draft, "limit"), window: whole(draft, "window", 8, 100_000) };
    case "grad_norm":
      return { kind: "grad_norm", limit: positive(draft, "limit") };
    case "metric":
      return { kind: "metric", name: text(draft, "name"), op: draft.op, value: number(draft, "value") };
    case "sample":
      return { kind: "sample", ids: sampleIds(draft) };
    case "expression":
      return { kind: "expression", expression: text(draft, "expression") };
    case "rule":
      return ruleCondition(draft);
  }
}

/** A rule with the limits that were typed; empty fields are left to the rule. */
function ruleCondition(draft: Draft): Condition {
  const given = (field: Field) => draft[field].trim() !== "";
  return {
    kind: "rule",
    rule: draft.rule,
    ...(given("limit") && { limit: number(draft, "limit") }),
    ...(given("low") && { low: number(draft, "low") }),
    ...(given("window") && { window: whole(draft, "window", 1, 1_000_000) }),
    ...(given("every") && { every: whole(draft, "every", 1, 1_000_000) }),
    ...(given("layers") && { layers: text(draft, "layers") }),
    ...(given("metric") && { metric: text(draft, "metric") }),
  };
}

function number(draft: Draft, field: Field): number {
  const value = parseNumber(draft[field], false);
  if (value === null || !Number.isFinite(value)) throw new BadField(field, "Enter a number");
  return value;
}

function positive(draft: Draft, field: Field): number {
  const value = number(draft, field);
  if (value <= 0) throw new BadField(field, "Enter a number above 0");
  return value;
}

function whole(draft: Draft, field: Field, least: number, most = 1e15): number {
  const value = number(draft, field);
  if (!Number.isInteger(value) || value < least) {
    throw new BadField(field, `Enter a whole number, ${least} or more`);
  }
  if (value > most) throw new BadField(field, `Enter at most ${formatCount(most)}`);
  return value;
}

function text(draft: Draft, field: Field): string {
  const typed = draft[field].trim();
  if (!typed) throw new BadField(field, "Required");
  return typed;
}

/** Ids apart by commas or spaces; so a comma is no thousands sign here. */
function sampleIds(draft: Draft): number[] {
  const ids = text(draft, "ids")
    .split(/[\s,;]+/)
    .filter(Boolean)
    .map(Number);
  if (!ids.length || !ids.every(Number.isInteger))
    throw new BadField("ids", "Enter sample ids, for example 7369, 8120");
  if (ids.length > 10_000) throw new BadField("ids", "Enter at most 10,000 ids");
  return ids;
}

/** Up to six digits, as the server writes its limits. */
function short(value: number): string {
  return String(Number(value.toPrecision(6)));
}

/** The condition in words, as the server's list shows it. */
export function conditionWords(condition: Condition): string {
  switch (condition.kind) {
    case "step":
      return `step = ${formatCount(condition.step)}`;
    case "every":
      return `every ${formatCount(condition.n)} steps`;
    case "loss_nonfinite":
      return "loss is not finite";
    case "loss_z":
      return `loss z-score > ${short(condition.limit)}`;
    case "grad_norm":
      return `grad_norm > ${short(condition.limit)}`;
    case "metric":
      return `${condition.name} ${condition.op} ${short(condition.value)}`;
    case "sample":
      return condition.ids.length === 1
        ? `sample ${formatCount(condition.ids[0] as number)} seen`
        : `one of ${formatCount(condition.ids.length)} samples seen`;
    case "expression":
      return condition.expression;
    case "rule":
      return condition.rule.replaceAll("_", " ");
  }
}

/** The field of a kind that an answer of the server without a field is about. */
export function mainField(kind: Condition["kind"]): Field {
  const fields: Record<Condition["kind"], Field> = {
    step: "step",
    every: "n",
    loss_nonfinite: "name",
    loss_z: "limit",
    grad_norm: "limit",
    metric: "value",
    sample: "ids",
    expression: "expression",
    rule: "limit",
  };
  return fields[kind];
}
