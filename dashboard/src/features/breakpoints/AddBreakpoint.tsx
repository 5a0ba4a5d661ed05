/** The form of a new breakpoint. A refusal of the server is shown beside its field. */
import { Fragment, type ReactNode, useState } from "react";
import type { BreakpointAction, Condition, RuleOut } from "@/api/types";
import { Button, Dialog, Field } from "@/ui";
import {
  COMPARISONS,
  type Comparison,
  conditionWords,
  type Draft,
  EMPTY_DRAFT,
  type FieldError,
  type Field as FieldName,
  KINDS,
  type Kind,
  parseDraft,
} from "./conditions";
import { ruleDraft, ruleFields, useRules } from "./rules";

interface AddBreakpointProps {
  start: Draft;
  /** Names of the scalars the run logs. */
  scalars: readonly string[];
  /** Sets it; answers what the server did not like. */
  onAdd: (condition: Condition, action: BreakpointAction) => Promise<FieldError | null>;
  onClose: () => void;
}

export default function AddBreakpoint({ start, scalars, onAdd, onClose }: AddBreakpointProps) {
  const [draft, setDraft] = useState(start);
  const [error, setError] = useState<FieldError | null>(null);
  const [busy, setBusy] = useState(false);
  const rules = useRules();
  const rule = draft.kind === "rule" ? rules.find((one) => one.rule === draft.rule) : undefined;
  const parsed = parseDraft(draft);
  const change = (changes: Partial<Draft>) => {
    setDraft({ ...draft, ...changes });
    setError(null);
  };
  const add = async () => {
    if (busy) return;
    if ("error" in parsed) return setError(parsed.error);
    setBusy(true);
    const refused = await onAdd(parsed.condition, draft.action);
    setBusy(false);
    if (refused === null) onClose();
    else setError(refused);
  };
  return (
    <Dialog title="Add breakpoint" onClose={onClose}>
      <form
        className="mt-3 flex flex-col gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          void add();
        }}
      >
        <Row label="Stop on">
          <Select
            label="Kind of condition"
            value={draft.kind === "rule" ? `rule:${draft.rule}` : draft.kind}
            choices={KINDS.map(({ kind, title }) => [kind, title])}
            groups={[["Rules", rules.map(({ rule: name, title }) => [`rule:${name}`, title])]]}
            onChange={(choice) => change(chosen(choice, rules))}
          />
        </Row>
        <KindFields {...{ draft, change, error, scalars, rule }} />
        <Row label="Then">
          <Select
            label="What it does"
            value={draft.action}
            choices={ACTIONS}
            onChange={(action) => change({ action: action as BreakpointAction })}
          />
        </Row>
        <p className="min-h-8 text-t3">
          {rule ? rule.explanation.means : KINDS.find(({ kind }) => kind === draft.kind)?.hint}
          {"condition" in parsed && draft.kind !== "expression" && draft.kind !== "rule" && (
            <>
              {" "}
              In the list: <span className="font-medium text-t2">{conditionWords(parsed.condition)}</span>
            </>
          )}
        </p>
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="filled" busy={busy ? "Adding…" : null}>
            Add breakpoint
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

const ACTIONS = [
  ["pause", "Pause the run"],
  ["mark", "Only mark it on the chart"],
] as const;

/** What a choice of the menu puts into the form. */
function chosen(choice: string, rules: readonly RuleOut[]): Partial<Draft> {
  const rule = rules.find(({ rule: name }) => `rule:${name}` === choice);
  if (rule) return ruleDraft(rule);
  const { limit, window } = EMPTY_DRAFT;
  return { kind: choice as Kind, limit, window };
}

interface KindFieldsProps {
  rule: RuleOut | undefined;
  draft: Draft;
  change: (changes: Partial<Draft>) => void;
  error: FieldError | null;
  scalars: readonly string[];
}

/** The fields that the chosen kind needs. */
function KindFields({ draft, change, error, scalars, rule }: KindFieldsProps) {
  const input = (field: FieldName, label: string, className = "w-28", placeholder?: string) => (
    <Row label={label}>
      <Field
        label={label}
        value={draft[field]}
        onChange={(typed) => change({ [field]: typed })}
        error={error?.field === field ? error.message : null}
        errorPosition={className.includes("w-full") ? "below" : "beside"}
        placeholder={placeholder}
        className={className}
        list={field === "name" ? "scalar-names" : undefined}
      />
    </Row>
  );
  switch (draft.kind) {
    case "step":
      return input("step", "Step");
    case "every":
      return input("n", "Steps apart");
    case "loss_nonfinite":
      return error && <p className="text-bad">{error.message}</p>;
    case "loss_z":
      return (
        <>
          {input("limit", "Above")}
          {input("window", "Window of steps")}
        </>
      );
    case "grad_norm":
      return input("limit", "Above");
    case "metric":
      return (
        <>
          {input("name", "Metric", "w-40")}
          <datalist id="scalar-names">
            {scalars.map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
          <Row label="Is">
            <Select
              label="Comparison"
              value={draft.op}
              choices={COMPARISONS.map((op) => [op, op])}
              onChange={(op) => change({ op: op as Comparison })}
            />
          </Row>
          {input("value", "Value")}
        </>
      );
    case "sample":
      return input("ids", "Sample ids", "w-full", "7369, 8120");
    case "expression":
      return input("expression", "Expression", "w-full font-mono", "loss > 2 and step > 100");
    case "rule":
      return (
        <>
          {(rule ? ruleFields(rule) : []).map(({ field, label }) => (
            <Fragment key={field}>{input(field, label, field === "layers" ? "w-40" : "w-28")}</Fragment>
          ))}
        </>
      );
  }
}

function Row({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div className="grid grid-cols-[104px_1fr] items-center gap-2">
      <span aria-hidden="true" className="text-t3">
        {label}
      </span>
      <div className="flex min-w-0 items-center gap-2 [&>.flex-col]:flex-1">{children}</div>
    </div>
  );
}

type Choice = readonly [value: string, title: string];

interface SelectProps {
  label: string;
  value: string;
  choices: readonly Choice[];
  groups?: readonly (readonly [title: string, choices: readonly Choice[]])[];
  onChange: (value: string) => void;
}

function Select({ label, value, choices, groups = [], onChange }: SelectProps) {
  return (
    <select
      aria-label={label}
      value={value}
      onChange={(event) => onChange(event.target.value)}
      className="h-7 rounded-control bg-s2 px-2 font-medium text-text"
    >
      {choices.map(([choice, title]) => (
        <option key={choice} value={choice}>
          {title}
        </option>
      ))}
      {groups.map(([heading, members]) => (
        <optgroup key={heading} label={heading}>
          {members.map(([choice, title]) => (
            <option key={choice} value={choice}>
              {title}
            </option>
          ))}
        </optgroup>
      ))}
    </select>
  );
}
