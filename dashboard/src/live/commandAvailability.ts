/** Which verbs can be used now, and if not, why: the sentence goes into the button's tooltip. */
import type { StateOut } from "@/api/types";
import type { ConnectionStatus } from "./connection";

export type VerbName = "pause" | "resume" | "step" | "back" | "run_until" | "stop";

const ENDED = new Set(["stopped", "finished", "failed", "killed", "lost"]);

/** Whether the run takes no more commands; one that stands at its error can still be let go. */
export function hasEnded(state: StateOut | null): boolean {
  return state !== null && (state.stopped || (ENDED.has(state.state) && !state.parked));
}

/** Why nothing at all can be commanded; null when it can. */
export function disabledReason(state: StateOut | null, status: ConnectionStatus): string | null {
  if (status === "view only") return "This link can only look";
  if (status === "denied")
    return "The server does not know this page's token. Open the link that the run printed.";
  if (status === "reconnecting") return "Waiting for the connection to come back";
  // After two silent seconds a command is still sent and waits for its answer: a press is not lost to a hiccup.
  if (status === "not responding") return "Waiting for an answer from the run";
  if (state === null) return "No run is live";
  if (hasEnded(state)) return "The run has ended";
  return null;
}

/** Why a verb cannot be used now; null when it can. */
export function verbDisabledReason(
  verb: VerbName,
  state: StateOut | null,
  status: ConnectionStatus,
): string | null {
  const none = disabledReason(state, status);
  if (none !== null || state === null) return none;
  if (state.state === "failed" && (verb === "step" || verb === "back" || verb === "run_until"))
    return "The run has failed; resume or stop lets it end";
  if (verb === "back" && !state.offers.includes("back"))
    return "This loop keeps no snapshots to go back to; train with a Session, or attach with a loader";
  if ((verb === "step" || verb === "back") && !state.parked) return "Pause first";
  if (verb === "pause" && state.paused && state.steps_left === null) return "The run is paused already";
  if (verb === "resume" && !state.paused) return "The run is running already";
  return null;
}

/** What Space and the one filled button do now: stop what moves, or let go what stands. */
export function toggleOf(state: StateOut | null): "pause" | "resume" {
  return state !== null && ["running", "stepping", "pausing"].includes(state.state) ? "pause" : "resume";
}

/** Why a command of the registry cannot be given now; null when it can. */
export function commandDisabledReason(
  name: string,
  state: StateOut | null,
  status: ConnectionStatus,
): string | null {
  const none = disabledReason(state, status);
  if (none !== null || state === null) return none;
  return state.offers.includes(name) ? null : "This run does not offer it; train with a Session";
}
