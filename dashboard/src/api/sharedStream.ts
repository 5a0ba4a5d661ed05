/** A stream read once per browser: the tab that holds the lock reads it, the others listen to that tab. */

import { newId } from "@/lib/ids";
import { currentToken, problemOf, requestHeaders } from "./client";
import { SseParser } from "./sseParser";
import type { BreakpointOut, HelloMessage, StateOut, StreamMessage } from "./types";

export type Link = "connecting" | "open" | "lost" | "denied";

interface Message {
  type: string;
}

export interface StreamHandlers<M extends Message = StreamMessage> {
  onMessage: (message: M) => void;
  /** `why`: what the server said when it refused. */
  onLink: (link: Link, why?: string | null) => void;
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

interface Ended {
  status: number;
  why: string | null;
}

/** Reads one connection until it ends; answers the status and the reason when it was refused. */
async function readOnce<M>(
  address: string,
  lastId: string | null,
  signal: AbortSignal,
  onEvent: (id: string, message: M) => void,
  onOpen: () => void,
): Promise<Ended> {
  const silence = new AbortController();
  const both = AbortSignal.any([signal, silence.signal]);
  let timer = setTimeout(() => silence.abort(), SILENCE_MS);
  try {
    const headers = {
      ...requestHeaders(),
      Accept: "text/event-stream",
      ...(lastId ? { "Last-Event-ID": lastId } : {}),
    };
    const response = await fetch(address, {
      headers,
      signal: both,
      cache: "no-store",
    });
    if (!response.ok || response.body === null)
      return { status: response.status, why: (await problemOf(response)).message };
    onOpen();
    const parser = new SseParser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return { status: 200, why: null };
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
      for (const event of parser.push(value)) onEvent(event.id, JSON.parse(event.data) as M);
    }
  } catch (error) {
    // A broken connection is the ordinary case here: the loop outside opens it again with the last id.
    if (error instanceof SyntaxError) throw error;
    return { status: 0, why: null };
  } finally {
    clearTimeout(timer);
  }
}

/** What tabs say to each other. */
type TabMessage<M> =
  | { kind: "message"; id: string; message: M }
  | { kind: "link"; link: Link; why: string | null }
  | { kind: "join"; from: string }
  | { kind: "welcome"; to: string; id: string; hello: M | null };

/** What a tab that joins later is told, so that it starts whole. */
interface Picture<M> {
  take(message: M): void;
  /** The one message to start from; null before there is one, or where a tab asks the server itself. */
  welcome(): M | null;
  /** Whether nothing counts before that message. */
  readonly needed: boolean;
}

/** Last known picture of a run. */
class RunPicture implements Picture<StreamMessage> {
  readonly needed = true;
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

const LOCKS = "midstep-";
/** More streams than this, and a few tabs would leave no connection for anything else. */
const MOST_STREAMS = 3;

/** Whether the tabs of this browser hold so many streams that one nobody sees had better be closed. */
export async function isCrowded(): Promise<boolean> {
  const { held = [] } = (await navigator.locks?.query()) ?? {};
  return held.filter(({ name }) => name?.startsWith(LOCKS)).length >= MOST_STREAMS;
}

/** Whether another tab waits to lead, so that it listens until then. */
async function isAwaited(lock: string): Promise<boolean> {
  const { pending = [] } = await navigator.locks.query();
  return pending.some(({ name }) => name === lock);
}

/** Follows a stream until `close`; every handler is called in order, in this tab only. */
class SharedStream<M extends Message> {
  private readonly closing = new AbortController();
  private readonly channel: BroadcastChannel | null;
  private readonly name: string;
  private lastId: string | null = null;
  private readonly tab = newId();
  private leads = false;
  /** Whether a tab listens to this one. Alone, it spares the browser a copy of every message. */
  private isHeard = false;
  private isOpen = false;
  /** Whether the browser leaves this page and cuts its requests off, which says nothing about the server. */
  private isLeaving = false;
  private welcomed: boolean;

  constructor(
    private readonly address: string,
    name: string,
    private readonly picture: Picture<M>,
    private readonly handlers: StreamHandlers<M>,
  ) {
    this.name = `${LOCKS}${name}-${tokenMark()}`;
    this.welcomed = !picture.needed;
    // Web Locks exist on secure origins only; over a plain forwarded host name each tab reads for itself.
    const shared = navigator.locks !== undefined && typeof BroadcastChannel !== "undefined";
    this.channel = shared ? new BroadcastChannel(this.name) : null;
    if (this.channel !== null)
      this.channel.onmessage = (event: MessageEvent<TabMessage<M>>) => this.heard(event.data);
    this.watchLeaving();
    handlers.onLink("connecting");
    void this.start(shared);
  }

  close(): void {
    this.closing.abort();
    this.channel?.close();
  }

  private watchLeaving(): void {
    if (typeof window === "undefined") return;
    const { signal } = this.closing;
    const note = ({ type }: Event) => {
      this.isLeaving = type === "pagehide";
    };
    // A page that is left may be kept by the browser and shown again.
    for (const type of ["pagehide", "pageshow"]) window.addEventListener(type, note, { signal });
  }

  private async start(shared: boolean): Promise<void> {
    const signal = this.closing.signal;
    if (!shared) return this.lead();
    this.say({ kind: "join", from: this.tab });
    try {
      await navigator.locks.request(this.name, { signal }, async () => {
        if (await isAwaited(this.name)) this.isHeard = true;
        await this.lead();
      });
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  private async lead(): Promise<void> {
    this.leads = true;
    const signal = this.closing.signal;
    for (let attempt = 0; !signal.aborted; attempt += 1) {
      const { status, why } = await readOnce<M>(
        this.address,
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
      this.link(denied ? "denied" : "lost", why);
      // A wrong token does not get right by asking again; a new link loads the page anew.
      if (denied) return;
      await pause(waitBeforeRetry(attempt), signal);
    }
  }

  private publish(id: string, message: M): void {
    if (this.isHeard) this.say({ kind: "message", id, message });
    this.take(id, message);
  }

  private take(id: string, message: M): void {
    if (id !== "") this.lastId = id;
    this.picture.take(message);
    if (message.type === "hello") this.welcomed = true;
    this.handlers.onMessage(message);
  }

  private link(link: Link, why: string | null = null): void {
    this.isOpen = link === "open";
    // The next tab opens a stream of its own. Told of a loss, it would disable its buttons and lose a click.
    if (this.isHeard && !this.isLeaving) this.say({ kind: "link", link, why });
    this.handlers.onLink(link, why);
  }

  private say(message: TabMessage<M>): void {
    if (!this.closing.signal.aborted) this.channel?.postMessage(message);
  }

  private heard(said: TabMessage<M>): void {
    if (said.kind === "join") {
      this.isHeard = true;
      const hello = this.picture.welcome();
      const ready = this.leads && (hello !== null || (this.isOpen && !this.picture.needed));
      if (ready) this.say({ kind: "welcome", to: said.from, id: this.lastId ?? "", hello });
    } else if (this.leads) {
      return;
    } else if (said.kind === "welcome") {
      if (said.to !== this.tab) return;
      this.handlers.onLink("open");
      if (said.hello !== null) this.take(said.id, said.hello);
    } else if (said.kind === "link") {
      this.handlers.onLink(said.link, said.why);
    } else if (said.message.type === "hello" || this.welcomed) {
      this.take(said.id, said.message);
    }
  }
}

/** Follows one run. */
export class RunStream extends SharedStream<StreamMessage> {
  constructor(runId: string, handlers: StreamHandlers) {
    const address = `/api/v1/stream?run=${encodeURIComponent(runId)}`;
    super(address, `stream-${runId}`, new RunPicture(), handlers);
  }
}

const NO_PICTURE = { needed: false, take: () => undefined, welcome: () => null };

/** Follows the list of all runs; who joins reads the list itself first. */
export class ListStream<M extends Message> extends SharedStream<M> {
  constructor(handlers: StreamHandlers<M>) {
    super("/api/v1/stream", "runs", NO_PICTURE, handlers);
  }
}
