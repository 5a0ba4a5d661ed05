/** Joins the stream of a run to the store, and keeps the clock that says how old the page is. */

import { api, runPath } from "@/api/client";
import { RunStream, tooManyStreams } from "@/api/sharedStream";
import type { CommandOut, StreamMessage } from "@/api/types";
import { showEventToast } from "./eventToasts";
import { MessageBuffer } from "./messageBuffer";
import { useRun } from "./store";

const TICK_MS = 500;

/** Follows a run; the answer ends it. */
export function followRun(runId: string): () => void {
  const live = useRun.getState();
  live.follow(runId);
  const take = (message: StreamMessage, at: number) => {
    live.applyMessage(message, at);
    if (message.type === "hello") void fetchCommands(runId);
    if (message.type === "event") showEventToast(message.record);
  };
  const buffer = new MessageBuffer(take, () => !document.hidden);
  const open = () =>
    new RunStream(runId, {
      onMessage: (message) => buffer.push(message),
      onLink: (link, why) => {
        buffer.flush();
        live.setLink(link, Date.now(), why ?? null);
      },
    });
  let stream: RunStream | null = open();
  // A browser opens at most six connections to a server, so a hidden tab gives up its own.
  const onVisibility = async () => {
    if (!document.hidden) stream ??= open();
    else if (await tooManyStreams()) {
      if (!document.hidden) return;
      stream?.close();
      stream = null;
    }
  };
  const listener = () => void onVisibility();
  document.addEventListener("visibilitychange", listener);
  const clock = setInterval(() => stream && live.tick(Date.now()), TICK_MS);
  return () => {
    document.removeEventListener("visibilitychange", listener);
    clearInterval(clock);
    stream?.close();
    stream = null;
    buffer.close();
    live.follow(null);
  };
}

async function fetchCommands(runId: string): Promise<void> {
  try {
    const commands = await api.get<CommandOut[] | { commands: CommandOut[] }>(runPath(runId, "/commands"));
    if (useRun.getState().runId !== runId) return;
    useRun.getState().setCommands(Array.isArray(commands) ? commands : commands.commands);
  } catch {
    // The log then starts with the commands of the stream; the next hello fetches it again.
  }
}
