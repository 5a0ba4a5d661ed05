/** Facts that nobody asked for and everybody at the page should hear of once. */
import { showToast } from "@/lib/toasts";

/** Tells of an event of the stream, where it is one to be told of. */
export function tellOfEvent(record: Readonly<Record<string, unknown>>): void {
  if (record.kind === "repeated_steps" && record.exact === false) {
    showToast({ kind: "failed", title: "Repeated steps are not exact.", text: `${String(record.text)}.` });
  }
  if (record.kind !== "hook_off") return;
  showToast({
    kind: "failed",
    title: `Hook ${String(record.hook)} is off.`,
    text: `It raised ${String(record.why)}. Training goes on.`,
  });
}
