/** Events of the run that the page reports once. */
import { showToast } from "@/lib/toasts";

/** Shows a message for an event that needs one: a hook that was switched off. */
export function showEventToast(record: Readonly<Record<string, unknown>>): void {
  if (record.kind !== "hook_off") return;
  showToast({
    kind: "failed",
    title: `Hook ${String(record.hook)} was switched off.`,
    text: `It raised ${String(record.why)}. Training continues.`,
  });
}
