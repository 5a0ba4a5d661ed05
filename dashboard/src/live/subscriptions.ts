/** What the panels of all tabs show, as one list of subscriptions of the run's stream. */
import { ApiError, api, runPath } from "@/api/client";

export type CaptureKind = "batch" | "step_data" | "layers" | "forces" | "cosine_matrix" | "weights";

/** What a panel shows of a step. */
export interface CaptureSpec {
  kind: CaptureKind;
  /** Key of step data, or name of a tensor; left out: the list of keys, or the default tensor. */
  key?: string;
  /** First sample, and how many; of a batch only. */
  first?: number;
  count?: number;
}

export interface Subscription extends CaptureSpec {
  id: string;
}

/** The panels of a tab mount one after the other, and scrolling changes the list with every row. */
export const SEND_AFTER_MS = 150;
const RETRY_MS = 1_000;
const LONGEST_ID = 128;
/** Limits of the server: a longer list is refused as a whole. */
export const MAX_ENTRIES = 32;
export const MAX_SAMPLES = 512;

/** A name of the same length for any key: FNV-1a, 53 bits are more than 32 entries need. */
function hash(text: string): string {
  let low = 0x811c9dc5;
  let high = 0x1b873593;
  for (let index = 0; index < text.length; index += 1) {
    low = Math.imul(low ^ text.charCodeAt(index), 0x01000193);
    high = Math.imul(high ^ text.charCodeAt(index), 0x85ebca6b);
  }
  return (low >>> 0).toString(36) + (high >>> 0).toString(36);
}

/** The id under which the server reports captures: equal for equal specs, in every tab. */
export function subscriptionId({ kind, key, first, count }: CaptureSpec): string {
  const id = [kind, key, first, count].filter((part) => part !== undefined).join("/");
  return id.length <= LONGEST_ID ? id : `${id.slice(0, 100)}#${hash(id)}`;
}

/** What this tab shows, counted by spec; a hidden tab shows nothing. */
export class WantedCaptures {
  private readonly users = new Map<string, { subscription: Subscription; count: number }>();
  private hidden = false;
  private scheduled = false;

  constructor(private readonly onChange: (wanted: readonly Subscription[]) => void) {}

  /** Counts one more user; the result takes it back. */
  add(spec: CaptureSpec): () => void {
    const id = subscriptionId(spec);
    const entry = this.users.get(id) ?? { subscription: { id, ...spec }, count: 0 };
    entry.count += 1;
    this.users.set(id, entry);
    if (entry.count === 1) this.schedule();
    let released = false;
    return () => {
      if (released) return;
      released = true;
      entry.count -= 1;
      if (entry.count > 0) return;
      this.users.delete(id);
      this.schedule();
    };
  }

  setHidden(hidden: boolean): void {
    if (hidden === this.hidden) return;
    this.hidden = hidden;
    this.schedule();
  }

  get list(): Subscription[] {
    return this.hidden ? [] : [...this.users.values()].map(({ subscription }) => subscription);
  }

  /** Panels that mount in one render are reported once. */
  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    queueMicrotask(() => {
      this.scheduled = false;
      this.onChange(this.list);
    });
  }
}

/** All lists as one, each id once, within the limits of the server; what comes first is kept. */
export function joinLists(lists: Iterable<readonly Subscription[]>): Subscription[] {
  const joined = new Map<string, Subscription>();
  let samples = 0;
  for (const list of lists) {
    for (const subscription of list) {
      const count = subscription.kind === "batch" ? (subscription.count ?? 0) : 0;
      const fits = joined.size < MAX_ENTRIES && samples + count <= MAX_SAMPLES;
      if (joined.has(subscription.id) || !fits) continue;
      joined.set(subscription.id, subscription);
      samples += count;
    }
  }
  return [...joined.values()];
}

export interface SubscriptionBody {
  version: number;
  subscriptions: readonly Subscription[];
}

type Put = (runId: string, stream: string, body: SubscriptionBody) => Promise<void>;

const putToServer: Put = async (runId, stream, body) => {
  await api.put<"/runs/{run_id}/debug/streams/{stream}/subscriptions">(
    runPath(runId, `/debug/streams/${encodeURIComponent(stream)}/subscriptions`),
    body,
  );
};

/** Sends the joined list of all tabs. Only the tab that reads the stream has a stream to send it for. */
export class SubscriptionSender {
  private lists: ReadonlyMap<string, readonly Subscription[]> = new Map();
  private stream: string | null = null;
  private version = 0;
  /** The list that the server holds for this stream; null before one was sent. */
  private sent: string | null = null;
  private sending = false;
  private timer: ReturnType<typeof setTimeout> | null = null;

  constructor(
    private readonly runId: string,
    private readonly put: Put = putToServer,
  ) {}

  /** The stream of a new connection, which has no list yet; null where nothing can be subscribed. */
  setStream(stream: string | null): void {
    this.stream = stream;
    this.sent = null;
    // At once: until the list is there, nothing is captured for a page that was open before.
    this.schedule(0);
  }

  /** The lists of all tabs, by tab. */
  setLists(lists: ReadonlyMap<string, readonly Subscription[]>): void {
    this.lists = lists;
    this.schedule(SEND_AFTER_MS);
  }

  close(): void {
    this.stream = null;
    if (this.timer !== null) clearTimeout(this.timer);
  }

  private schedule(waitMs: number): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = this.stream === null ? null : setTimeout(() => void this.send(), waitMs);
  }

  private async send(): Promise<void> {
    this.timer = null;
    const { stream } = this;
    const subscriptions = joinLists(this.lists.values());
    const list = JSON.stringify(subscriptions);
    // A stream without a list captures nothing, which is what an empty list says.
    const isKnown = list === (this.sent ?? "[]");
    if (stream === null || this.sending || isKnown) return;
    this.sending = true;
    this.version += 1;
    const waitMs = await this.put(this.runId, stream, { version: this.version, subscriptions }).then(
      () => {
        if (this.stream === stream) this.sent = list;
        return 0;
      },
      (error: unknown) => {
        // 404: the stream has ended; the hello of the next one sends the list again.
        const hasEnded = error instanceof ApiError && error.status === 404 && this.stream === stream;
        if (hasEnded) this.stream = null;
        return RETRY_MS;
      },
    );
    this.sending = false;
    // What changed meanwhile, or was not taken.
    if (this.timer === null) this.schedule(waitMs);
  }
}
