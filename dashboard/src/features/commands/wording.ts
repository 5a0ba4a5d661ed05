/** One line of the command log in words. */
import type { CommandOut } from "@/api/types";
import { formatDuration, formatPercent } from "@/lib/format";

/** Name and payload as one types them: `step n=8`, `run_until step=13000`. */
export function commandText({
  command,
  payload,
  who,
}: Pick<CommandOut, "command" | "payload" | "who">): string {
  // The line ends with who requested it, which names the breakpoint.
  const said = Object.entries(payload).filter(([key]) => !(who === "breakpoint" && key === "breakpoint"));
  const parts = said.map(([key, value]) => `${key}=${payloadText(value)}`);
  return [command, ...parts].join(" ");
}

function payloadText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.length}]`;
  if (value !== null && typeof value === "object") return "{…}";
  return String(value);
}

export interface Outcome {
  text: string;
  tone: "ok" | "bad" | "busy";
}

/** How it ended, or that it has not: a duration, or the reason. */
export function outcome(command: Pick<CommandOut, "status" | "reason" | "duration_s" | "progress">): Outcome {
  switch (command.status) {
    case "done":
      return { text: command.duration_s == null ? "" : formatDuration(command.duration_s), tone: "ok" };
    case "refused":
      return { text: `Refused: ${command.reason ?? "no reason given"}`, tone: "bad" };
    case "failed":
      return { text: `Failed: ${command.reason ?? "no reason given"}`, tone: "bad" };
    case "running":
      return { text: command.progress == null ? "Running…" : formatPercent(command.progress), tone: "busy" };
    case "pending":
      return { text: "Waiting…", tone: "busy" };
  }
}

/** Who requested it: `page`, or `breakpoint 2` where the command says which one. */
export function whoText({ who, payload }: Pick<CommandOut, "payload" | "who">): string {
  return who === "breakpoint" && typeof payload.breakpoint === "number"
    ? `breakpoint ${payload.breakpoint}`
    : who;
}
