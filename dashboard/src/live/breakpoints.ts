/** Breakpoints of the followed run: set, switched, removed with an undo. */
import { api, runPath } from "@/api/client";
import type { BreakpointAction, BreakpointOut, Condition } from "@/api/types";
import { showToast } from "@/lib/toasts";
import { outcomeOf, reportOutcome } from "./commands";
import { useRun } from "./store";

function breakpointPath(id?: number): string {
  const { runId } = useRun.getState();
  return runPath(runId ?? "", `/debug/breakpoints${id === undefined ? "" : `/${id}`}`);
}

function putBreakpoint(breakpoint: BreakpointOut): void {
  const { breakpoints, setBreakpoints } = useRun.getState();
  const others = breakpoints.filter((one) => one.id !== breakpoint.id);
  setBreakpoints([...others, breakpoint].sort((a, b) => a.id - b.id));
}

/** Sets a breakpoint; a condition that cannot be read is thrown as ApiError, so that the form can show it beside its field. */
export async function addBreakpoint(
  condition: Condition,
  enabled = true,
  action: BreakpointAction = "pause",
): Promise<BreakpointOut> {
  const { body } = await api.post<"/runs/{run_id}/debug/breakpoints">(breakpointPath(), {
    condition,
    enabled,
    action,
  });
  putBreakpoint(body);
  return body;
}

/** Switches a breakpoint on or off. */
export async function switchBreakpoint(id: number, enabled: boolean): Promise<void> {
  try {
    putBreakpoint(
      (await api.patch<"/runs/{run_id}/debug/breakpoints/{breakpoint_id}">(breakpointPath(id), { enabled }))
        .body,
    );
  } catch (error) {
    reportOutcome(`Breakpoint ${id}`, outcomeOf(error));
  }
}

/** Removes a breakpoint and offers to set it again. */
export async function removeBreakpoint(breakpoint: BreakpointOut): Promise<void> {
  try {
    await api.delete<"/runs/{run_id}/debug/breakpoints/{breakpoint_id}">(breakpointPath(breakpoint.id));
    const { breakpoints, setBreakpoints } = useRun.getState();
    setBreakpoints(breakpoints.filter((one) => one.id !== breakpoint.id));
    const undo = () => void addBreakpoint(breakpoint.condition, breakpoint.enabled, breakpoint.action);
    showToast({
      kind: "done",
      title: `Removed breakpoint ${breakpoint.id}.`,
      action: { label: "Undo", keys: "Ctrl Z", run: undo },
    });
  } catch (error) {
    reportOutcome(`Remove breakpoint ${breakpoint.id}`, outcomeOf(error));
  }
}
