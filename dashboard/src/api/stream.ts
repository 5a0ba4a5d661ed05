/** The stream of one run, read once per browser: the tab that holds the lock reads it, the others listen to that tab. */

import { newId } from "@/lib/ids";
import { currentToken, requestHeaders } from "./client";
import { SseParser } from "./sse";
import type { BreakpointOut, HelloMessage, StateOut, StreamMessage } from "./types";

export type Link = "connecting" | "open" | "lost" | "denied";

export interface StreamHandlers {
  onMessage: (message: StreamMessage) => void;
  onLink: (link: Link) => void;
}

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 5_000;
/** A ping comes each second; a link that is silent this long is given up and opened anew. */
const SILENCE_MS = 10_000;

/** Doubling waits with some chance in them, so that fifty pages do not knock at the same moment. */
export function waitBeforeRetry(attempt: number, chance = Math.random()): number {
  const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt);
  return wait * (0.5 + chance / 2);
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** Reads one connection until it ends; answers the status when it was refused. */
async function readOnce(
  runId: string,
  lastId: string | null,
  signal: AbortSignal,
  onEvent: (id: string, message: StreamMessage) => void,
  onOpen: () => void,
): Promise<number> {
  const silence = new AbortController();
  const both = AbortSignal.any([signal, silence.signal]);
  let timer = setTimeout(() => silence.abort(), SILENCE_MS);
  try {
    const headers = {
      ...requestHeaders(),
      Accept: "text/event-stream",
      ...(lastId ? { "Last-Event-ID": lastId } : {}),
    };
    const response = await fetch(`/api/v1/stream?run=${encodeURIComponent(runId)}`, {
      headers,
      signal: both,
      cache: "no-store",
    });
    if (!response.ok || response.body === null) return response.status;
    onOpen();
    const parser = new SseParser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return 200;
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
      for (const event of parser.push(value)) onEvent(event.id, JSON.parse(event.data) as StreamMessage);
    }
  } catch (error) {
    // A broken connection is the ordinary case here: the loop outside opens it again with the last id.
    if (error instanceof SyntaxError) throw error;
    return 0;
  } finally {
    clearTimeout(timer);
  }
}

/** What tabs say to each other. */
type TabMessage =
  | { kind: "message"; id: string; message: StreamMessage }
  | { kind: "link"; link: Link }
  | { kind: "join"; from: string }
  | { kind: "welcome"; to: string; id: string; hello: HelloMessage };

/** Last known picture of the run, so that a tab that joins later starts whole. */
class Latest {
  private hello: HelloMessage | null = null;
  private state: StateOut | null = null;
  private breakpoints: BreakpointOut[] | null = null;
  private seq = 0;

  take(message: StreamMessage): void {
    if (message.type === "hello") {
      this.hello = message;
      this.state = message.state;
      this.breakpoints = message.breakpoints;
      this.seq = message.seq;
    } else if (message.type === "state") this.state = message.state;
    else if (message.type === "breakpoints") this.breakpoints = message.breakpoints;
    else if (message.type === "scalars") this.seq = message.last_seq;
    else if (message.type === "event") this.seq = message.seq;
  }

  welcome(): HelloMessage | null {
    if (this.hello === null || this.state === null || this.breakpoints === null) return null;
    return { ...this.hello, state: this.state, breakpoints: this.breakpoints, seq: this.seq, resumed: false };
  }
}

/** Not a secret, only a name: tabs with another token must not share a stream. */
function tokenMark(): string {
  let hash = 0x811c9dc5;
  for (const char of currentToken() ?? "") hash = Math.imul(hash ^ char.charCodeAt(0), 0x01000193);
  return (hash >>> 0).toString(36);
}

/** Follows a run until `close`; every handler is called in order, in this tab only. */
export class RunStream {
  private readonly closing = new AbortController();
  private readonly latest = new Latest();
  private readonly channel: BroadcastChannel | null;
  private readonly name: string;
  private lastId: string | null = null;
  private readonly tab = newId();
  private leads = false;
  private welcomed = false;

  constructor(
    private readonly runId: string,
    private readonly handlers: StreamHandlers,
  ) {
    this.name = `midstep-stream-${runId}-${tokenMark()}`;
    // Web Locks exist on secure origins only; over a plain forwarded host name each tab reads for itself.
    const shared = navigator.locks !== undefined && typeof BroadcastChannel !== "undefined";
    this.channel = shared ? new BroadcastChannel(this.name) : null;
    if (this.channel !== null)
      this.channel.onmessage = (event: MessageEvent<TabMessage>) => this.heard(event.data);
    handlers.onLink("connecting");
    void this.start(shared);
  }

  close(): void {
    this.closing.abort();
    this.channel?.close();
  }

  private async start(shared: boolean): Promise<void> {
    const signal = this.closing.signal;
    if (!shared) return this.lead();
    this.say({ kind: "join", from: this.tab });
    try {
      await navigator.locks.request(this.name, { signal }, () => this.lead());
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  private async lead(): Promise<void> {
    this.leads = true;
    const signal = this.closing.signal;
    for (let attempt = 0; !signal.aborted; attempt += 1) {
      const status = await readOnce(
        this.runId,
        this.lastId,
        signal,
        (id, message) => {
          attempt = 0;
          this.publish(id, message);
        },
        () => this.link("open"),
      );
      if (signal.aborted) return;
      const denied = status === 401 || status === 403;
      this.link(denied ? "denied" : "lost");
      // A wrong token does not get right by asking again; a new link loads the page anew.
      if (denied) return;
      await pause(waitBeforeRetry(attempt), signal);
    }
  }

  private publish(id: string, message: StreamMessage): void {
    this.say({ kind: "message", id, message });
    this.take(id, message);
  }

  private take(id: string, message: StreamMessage): void {
    if (id !== "") this.lastId = id;
    this.latest.take(message);
    if (message.type === "hello") this.welcomed = true;
    this.handlers.onMessage(message);
  }

  private link(link: Link): void {
    this.say({ kind: "link", link });
    this.handlers.onLink(link);
  }

  private say(message: TabMessage): void {
    if (!this.closing.signal.aborted) this.channel?.postMessage(message);
  }

  private heard(said: TabMessage): void {
    if (said.kind === "join") {
      const hello = this.leads ? this.latest.welcome() : null;
      if (hello !== null) this.say({ kind: "welcome", to: said.from, id: this.lastId ?? "", hello });
    } else if (this.leads) {
      return;
    } else if (said.kind === "welcome") {
      if (said.to !== this.tab) return;
      this.handlers.onLink("open");
      this.take(said.id, said.hello);
    } else if (said.kind === "link") {
      this.handlers.onLink(said.link);
    } else if (said.message.type === "hello" || this.welcomed) {
      this.take(said.id, said.message);
    }
  }
}
