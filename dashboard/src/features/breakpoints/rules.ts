/** The ready-made rules, fetched once, and their fields in the form. */
import { useQuery } from "@tanstack/react-query";
import { type ApiError, api, runPath } from "@/api/client";
import type { RuleOut } from "@/api/types";
import { useRunId } from "@/live/hooks";
import type { Draft, Field } from "./conditions";

/** All rules that the run can be watched with; none while they are on their way. */
export function useRules(): readonly RuleOut[] {
  const runId = useRunId();
  const { data } = useQuery<RuleOut[], ApiError>({
    queryKey: ["rules", runId],
    queryFn: ({ signal }) =>
      api.get<"/runs/{run_id}/debug/rules">(runPath(runId ?? "", "/debug/rules"), signal),
    enabled: runId !== null,
    staleTime: Number.POSITIVE_INFINITY,
  });
  return data ?? NONE;
}

const NONE: readonly RuleOut[] = [];

type RuleField = Extract<Field, "limit" | "low" | "window" | "every" | "layers" | "metric">;

const LABELS: Record<RuleField, string> = {
  limit: "Limit",
  low: "Lower limit",
  window: "Window",
  every: "Every n steps",
  metric: "Metric",
  layers: "Layer name contains",
};

/** The fields that a rule takes, in the order of the form. */
export function ruleFields({ defaults, needs_model }: RuleOut): { field: RuleField; label: string }[] {
  return (Object.keys(LABELS) as RuleField[])
    .filter((field) => (field === "layers" ? needs_model : defaults[field] !== null))
    .map((field) => ({ field, label: LABELS[field] }));
}

/** The form filled with a rule's own limits. */
export function ruleDraft({ rule, defaults }: RuleOut): Partial<Draft> {
  const text = (value: number | string | null) => (value === null ? "" : String(value));
  return {
    kind: "rule",
    rule,
    limit: text(defaults.limit),
    low: text(defaults.low),
    window: text(defaults.window),
    every: text(defaults.every),
    layers: text(defaults.layers),
    metric: text(defaults.metric),
  };
}
