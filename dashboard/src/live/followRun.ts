/** Joins the stream of a run to the store, and keeps the clock that says how old the page is. */

import { api, runPath } from "@/api/client";
import { isCrowded, RunStream } from "@/api/sharedStream";
import type { CommandOut, StreamMessage } from "@/api/types";
import { tellOfEvent } from "./eventToasts";
import { Inbox } from "./messageBuffer";
import { useLive } from "./store";

const TICK_MS = 500;

/** Follows a run; the answer ends it. */
export function followRun(runId: string): () => void {
  const live = useLive.getState();
  live.follow(runId);
  const take = (message: StreamMessage, at: number) => {
    live.take(message, at);
    if (message.type === "hello") void fetchCommands(runId);
    if (message.type === "event") tellOfEvent(message.record);
  };
  const inbox = new Inbox(take, () => !document.hidden);
  const open = () =>
    new RunStream(runId, {
      onMessage: (message) => inbox.receive(message),
      onLink: (link, why) => {
        inbox.deliver();
        live.setLink(link, Date.now(), why ?? null);
      },
    });
  let stream: RunStream | null = open();
  // A browser keeps six connections to a server: a tab nobody sees gives its own to those that are seen.
  const onVisibility = async () => {
    if (!document.hidden) stream ??= open();
    else if (await isCrowded()) {
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
    inbox.close();
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
