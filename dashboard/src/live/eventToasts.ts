/** Facts that nobody asked for and everybody at the page should hear of once. */
import { showToast } from "@/lib/toasts";

/** Tells of an event of the stream, where it is one to be told of. */
export function showEventToast(record: Readonly<Record<string, unknown>>): void {
  if (record.kind !== "hook_off") return;
  showToast({
    kind: "failed",
    title: `Hook ${String(record.hook)} was switched off.`,
    text: `It raised ${String(record.why)}. Training continues.`,
  });
}
