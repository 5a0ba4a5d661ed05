/** Events of the run that the page reports once. */
import { showToast } from "@/lib/toasts";

/** Shows a message for an event that needs one: a hook that was switched off, repeated steps that differ. */
export function showEventToast(record: Readonly<Record<string, unknown>>): void {
  if (record.kind === "repeated_steps" && record.exact === false) {
    showToast({ kind: "failed", title: "Repeated steps are not exact.", text: `${String(record.text)}.` });
  }
  if (record.kind !== "hook_off") return;
  showToast({
    kind: "failed",
    title: `Hook ${String(record.hook)} was switched off.`,
    text: `It raised ${String(record.why)}. Training continues.`,
  });
}
