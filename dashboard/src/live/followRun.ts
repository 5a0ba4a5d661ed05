/** Joins the stream of a run to the store, and keeps the clock that says how old the page is. */

import { api, runPath } from "@/api/client";
import { channelName, RunStream, tooManyStreams } from "@/api/sharedStream";
import type { StreamMessage } from "@/api/types";
import { applyCapture, forgetCaptures, useWanted, wantedCaptures } from "./captures";
import { showEventToast } from "./eventToasts";
import { MessageBuffer } from "./messageBuffer";
import { useRun } from "./store";
import { type Subscription, SubscriptionSender } from "./subscriptions";
import { TabLists } from "./tabLists";

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
  const sender = new SubscriptionSender(runId);
  const lists = new TabLists<Subscription>(channelName(`wanted-${runId}`), (all) => sender.setLists(all));
  const stopWanting = useWanted.subscribe(({ wanted }) => lists.setOwn(wanted));
  wantedCaptures.setHidden(document.hidden);
  lists.setOwn(wantedCaptures.list);
  const onMessage = (message: StreamMessage) => {
    // Captures are fetched on the clock of the panels; they need not wait for the next redraw as well.
    if (message.type === "capture") return applyCapture(message);
    if (message.type === "hello") {
      if (!message.resumed) forgetCaptures();
      if (stream?.leads) sender.setStream(message.captures ? message.stream : null);
    }
    buffer.push(message);
  };
  const open = () =>
    new RunStream(runId, {
      onMessage,
      onLink: (link, why) => {
        if (link !== "open") sender.setStream(null);
        buffer.flush();
        live.setLink(link, Date.now(), why ?? null);
      },
      onLead: () => lists.lead(),
    });
  let stream: RunStream | null = open();
  // A browser opens at most six connections to a server, so a hidden tab gives up its own.
  const onVisibility = async () => {
    wantedCaptures.setHidden(document.hidden);
    if (!document.hidden) stream ??= open();
    else if (await tooManyStreams()) {
      if (!document.hidden) return;
      stream?.close();
      stream = null;
      sender.setStream(null);
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
    stopWanting();
    lists.close();
    sender.close();
    buffer.close();
    forgetCaptures();
    live.follow(null);
  };
}

async function fetchCommands(runId: string): Promise<void> {
  try {
    const commands = await api.get<"/runs/{run_id}/commands">(runPath(runId, "/commands"));
    if (useRun.getState().runId !== runId) return;
    useRun.getState().setCommands(commands);
  } catch {
    // The log then starts with the commands of the stream; the next hello fetches it again.
  }
}
