/** Which verbs can be used now, and if not, why: the sentence goes into the button's tooltip. */

import type { StateOut } from "@/api/types";
import { PAUSE_FIRST, TOKEN_NOT_VALID, VIEW_ONLY } from "@/lib/messages";
import type { ConnectionStatus } from "./connection";

export type VerbName = "pause" | "resume" | "step" | "back" | "run_until" | "stop";

const ENDED = new Set(["stopped", "finished", "failed", "killed", "lost"]);

/** Whether the run takes no more commands. A run that is parked at an exception still takes Resume and Stop. */
export function hasEnded(state: StateOut | null): boolean {
  return state !== null && (state.stopped || (ENDED.has(state.state) && !state.parked));
}

/** Why nothing at all can be commanded; null when it can. */
export function disabledReason(state: StateOut | null, status: ConnectionStatus): string | null {
  if (status === "view only") return VIEW_ONLY;
  if (status === "denied") return TOKEN_NOT_VALID;
  if (status === "reconnecting") return "Not connected. Reconnecting.";
  // After two silent seconds a command is still sent and waits for its answer: a press is not lost to a hiccup.
  if (status === "not responding") return "The run does not answer";
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
    return "The run raised an exception. Resume or Stop ends it.";
  if (verb === "back" && !state.offers.includes("back"))
    return "Back needs snapshots. Use midstep.Session, or pass a DataLoader to midstep.attach.";
  if ((verb === "step" || verb === "back") && !state.parked) return PAUSE_FIRST;
  if (verb === "pause" && state.paused && state.steps_left === null) return "The run is already paused";
  if (verb === "resume" && !state.paused) return "The run is already running";
  return null;
}

/** What Space and the filled button do now: pause a moving run, or resume a paused one. */
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
  return state.offers.includes(name) ? null : "This run does not support this command. midstep.Session does.";
}
