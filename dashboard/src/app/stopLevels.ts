/** Ways to end a run, each harder than the one before. */
import type { ListedState, StopLevel } from "@/api/types";

/** After this long without an end the next harder way is offered. */
export const PATIENCE_MS = 5_000;

const OVER = new Set<ListedState>(["stopped", "finished", "failed", "killed", "lost", "damaged"]);

export const isOver = (state: ListedState | undefined): boolean => state !== undefined && OVER.has(state);

/** A loop that does not respond cannot stop by itself. */
export const firstLevel = (state: ListedState | undefined): StopLevel =>
  state === "not responding" ? "terminate" : "stop";

/** The way after one that did not end it; killing can only be repeated. */
export const nextLevel = (level: StopLevel): StopLevel => (level === "stop" ? "terminate" : "kill");

interface LevelWords {
  verb: string;
  busy: string;
  /** What it does, shown before it is confirmed. */
  text: (step: string) => string;
  /** While it is on its way. */
  waiting: string;
}

export const STOP_LEVELS: Record<StopLevel, LevelWords> = {
  stop: {
    verb: "Stop",
    busy: "Stopping…",
    text: (step) => `Training stops after step ${step}. The record is kept.`,
    waiting: "Stopping after the current step.",
  },
  terminate: {
    verb: "Terminate",
    busy: "Terminating…",
    text: () => "The run did not stop. Terminate sends SIGTERM; the process can still save a checkpoint.",
    waiting: "SIGTERM was sent. The process is ending.",
  },
  kill: {
    verb: "Kill",
    busy: "Killing…",
    text: () =>
      "The process is still running. Kill sends SIGKILL. Written records are kept; no checkpoint is saved.",
    waiting: "SIGKILL was sent.",
  },
};
