/** Joins the stream of a run to the store, and keeps the clock that says how old the page is. */
import { useLive } from "@/lib/store";
import { api, runPath } from "./client";
import { RunStream } from "./stream";
import type { CommandOut } from "./types";

const TICK_MS = 500;

/** Follows a run; the answer ends it. */
export function followRun(runId: string): () => void {
  const live = useLive.getState();
  live.follow(runId);
  const stream = new RunStream(runId, {
    onMessage: (message) => {
      live.take(message, Date.now());
      if (message.type === "hello") void fetchCommands(runId);
    },
    onLink: (link) => live.setLink(link, Date.now()),
  });
  const clock = setInterval(() => live.tick(Date.now()), TICK_MS);
  return () => {
    clearInterval(clock);
    stream.close();
    live.follow(null);
  };
}

async function fetchCommands(runId: string): Promise<void> {
  try {
    const commands = await api.get<CommandOut[] | { commands: CommandOut[] }>(runPath(runId, "/commands"));
    if (useLive.getState().runId !== runId) return;
    useLive.getState().setCommands(Array.isArray(commands) ? commands : commands.commands);
  } catch {
    // The log then starts with the commands that the stream brings; the next hello asks again.
  }
}
