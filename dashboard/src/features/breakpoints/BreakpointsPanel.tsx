/** Joins the list and the form to the run. */
import { lazy, Suspense, useState } from "react";
import { ApiError } from "@/api/client";
import type { BreakpointAction, Condition } from "@/api/types";
import { useAction } from "@/lib/actions";
import { addBreakpoint, removeBreakpoint, switchBreakpoint } from "@/live/breakpoints";
import { useBreakpoints, useNoCommandsReason, useRunState } from "@/live/hooks";
import { series } from "@/live/store";
import { BreakpointsView, exportBreakpoints } from "./BreakpointsView";
import { type Draft, EMPTY_DRAFT, type Field, type FieldError, mainField } from "./conditions";

const AddBreakpoint = lazy(() => import("./AddBreakpoint"));

interface BreakpointsPanelProps {
  /** What the focused thing proposes when the form opens. */
  propose: () => Partial<Draft>;
  stale: string | null;
}

export function BreakpointsPanel({ propose, stale }: BreakpointsPanelProps) {
  const breakpoints = useBreakpoints();
  /** What the form starts with; null while it is closed. */
  const [adding, setAdding] = useState<Draft | null>(null);
  const disabledReason = useNoCommandsReason();
  const stoppedBy = useRunState((state) => (state.parked ? state.breakpoint?.breakpoint : null)) ?? null;
  const open = () => setAdding({ ...EMPTY_DRAFT, ...propose() });
  useAction({
    id: "add-breakpoint",
    title: "Add breakpoint (from the selected sample or point)",
    group: "Breakpoints",
    keys: "B",
    words: "stop condition",
    disabledReason,
    run: open,
  });
  useAction({
    id: "export-breakpoints",
    title: "Export breakpoints as CSV",
    group: "Breakpoints",
    run: () => exportBreakpoints(breakpoints),
  });
  return (
    <>
      <BreakpointsView
        {...{ breakpoints, stoppedBy, disabledReason, stale }}
        onAdd={open}
        onSwitch={(id, on) => void switchBreakpoint(id, on)}
        onRemove={(breakpoint) => void removeBreakpoint(breakpoint)}
      />
      {adding && (
        <Suspense fallback={null}>
          <AddBreakpoint start={adding} scalars={series.names} onAdd={add} onClose={() => setAdding(null)} />
        </Suspense>
      )}
    </>
  );
}

async function add(condition: Condition, action: BreakpointAction): Promise<FieldError | null> {
  try {
    await addBreakpoint(condition, true, action);
    return null;
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    return { field: fieldOf(problem.problem.field ?? null, condition), message: problem.message };
  }
}

/** The form's field that the server names, as a path like `condition.expression`. */
function fieldOf(path: string | null, condition: Condition): Field {
  const last = path?.split(".").at(-1);
  return last !== undefined && last !== "kind" && last !== "rule" && last in condition
    ? (last as Field)
    : mainField(condition.kind);
}
