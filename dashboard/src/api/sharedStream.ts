/** A stream read once per browser: the tab that holds the lock reads it, the others listen to that tab. */

import { newId } from "@/lib/ids";
import { currentToken } from "./client";
import { pause, readEvents, waitBeforeRetry } from "./eventReader";
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

/** What tabs say to each other. */
type TabMessage<M> =
  | { kind: "message"; id: string; message: M }
  | { kind: "link"; link: Link; why: string | null }
  | { kind: "join"; from: string }
  | { kind: "welcome"; to: string; id: string; hello: M | null };

/** The state that a tab receives when it joins. */
interface LatestState<M> {
  apply(message: M): void;
  /** The message to start from; null before there is one, or if a tab reads the list from the server. */
  welcome(): M | null;
  /** Whether nothing counts before that message. */
  readonly needed: boolean;
}

/** Last known state of a run. */
class LatestRunState implements LatestState<StreamMessage> {
  readonly needed = true;
  private hello: HelloMessage | null = null;
  private state: StateOut | null = null;
  private breakpoints: BreakpointOut[] | null = null;
  private seq = 0;

  apply(message: StreamMessage): void {
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
const MAX_STREAMS = 3;

/** Whether the tabs of this browser hold so many streams that hidden tabs should close theirs. */
export async function tooManyStreams(): Promise<boolean> {
  const { held = [] } = (await navigator.locks?.query()) ?? {};
  return held.filter(({ name }) => name?.startsWith(LOCKS)).length >= MAX_STREAMS;
}

/** Whether another tab waits to lead, so that it listens until then. */
async function hasWaitingTab(lock: string): Promise<boolean> {
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
  private isLeader = false;
  /** Whether a tab listens to this one. Alone, it spares the browser a copy of every message. */
  private hasFollowers = false;
  private isOpen = false;
  /** Whether the browser leaves this page and cuts its requests off, which says nothing about the server. */
  private isLeaving = false;
  private welcomed: boolean;

  constructor(
    private readonly address: string,
    name: string,
    private readonly latest: LatestState<M>,
    private readonly handlers: StreamHandlers<M>,
  ) {
    this.name = `${LOCKS}${name}-${tokenMark()}`;
    this.welcomed = !latest.needed;
    // Web Locks exist on secure origins only; over a plain forwarded host name each tab reads for itself.
    const shared = navigator.locks !== undefined && typeof BroadcastChannel !== "undefined";
    this.channel = shared ? new BroadcastChannel(this.name) : null;
    if (this.channel !== null)
      this.channel.onmessage = (event: MessageEvent<TabMessage<M>>) => this.onTabMessage(event.data);
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
    this.postToTabs({ kind: "join", from: this.tab });
    try {
      await navigator.locks.request(this.name, { signal }, async () => {
        if (await hasWaitingTab(this.name)) this.hasFollowers = true;
        await this.lead();
      });
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  private async lead(): Promise<void> {
    this.isLeader = true;
    const signal = this.closing.signal;
    for (let attempt = 0; !signal.aborted; attempt += 1) {
      const { status, why } = await readEvents<M>(
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
      // Retrying does not make a wrong token valid. A new link reloads the page.
      if (denied) return;
      await pause(waitBeforeRetry(attempt), signal);
    }
  }

  private publish(id: string, message: M): void {
    if (this.hasFollowers) this.postToTabs({ kind: "message", id, message });
    this.apply(id, message);
  }

  private apply(id: string, message: M): void {
    if (id !== "") this.lastId = id;
    this.latest.apply(message);
    if (message.type === "hello") this.welcomed = true;
    this.handlers.onMessage(message);
  }

  private link(link: Link, why: string | null = null): void {
    this.isOpen = link === "open";
    // The next tab opens a stream of its own. Told of a loss, it would disable its buttons and lose a click.
    if (this.hasFollowers && !this.isLeaving) this.postToTabs({ kind: "link", link, why });
    this.handlers.onLink(link, why);
  }

  private postToTabs(message: TabMessage<M>): void {
    if (!this.closing.signal.aborted) this.channel?.postMessage(message);
  }

  private onTabMessage(message: TabMessage<M>): void {
    if (message.kind === "join") {
      this.hasFollowers = true;
      const hello = this.latest.welcome();
      const ready = this.isLeader && (hello !== null || (this.isOpen && !this.latest.needed));
      if (ready) this.postToTabs({ kind: "welcome", to: message.from, id: this.lastId ?? "", hello });
    } else if (this.isLeader) {
      return;
    } else if (message.kind === "welcome") {
      if (message.to !== this.tab) return;
      this.handlers.onLink("open");
      if (message.hello !== null) this.apply(message.id, message.hello);
    } else if (message.kind === "link") {
      this.handlers.onLink(message.link, message.why);
    } else if (message.message.type === "hello" || this.welcomed) {
      this.apply(message.id, message.message);
    }
  }
}

/** Follows one run. */
export class RunStream extends SharedStream<StreamMessage> {
  constructor(runId: string, handlers: StreamHandlers) {
    const address = `/api/v1/stream?run=${encodeURIComponent(runId)}`;
    super(address, `stream-${runId}`, new LatestRunState(), handlers);
  }
}

const NO_LATEST_STATE = { needed: false, apply: () => undefined, welcome: () => null };

/** Follows the list of all runs. A tab that joins reads the list from the server first. */
export class ListStream<M extends Message> extends SharedStream<M> {
  constructor(handlers: StreamHandlers<M>) {
    super("/api/v1/stream", "runs", NO_LATEST_STATE, handlers);
  }
}
