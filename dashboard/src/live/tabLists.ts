/** A list of each tab of this browser, known to the tab that reads the stream for all of them. */
import { newId } from "@/lib/ids";

type TabMessage<T> = { kind: "list"; from: string; list: readonly T[] } | { kind: "report" };

/** A tab that shows something repeats its list this often; a crashed one cannot say that it is gone. */
export const REPEAT_MS = 1_000;
/** A tab that is not heard for this long is gone. A visible one may be busy for some seconds. */
export const FORGET_MS = 5_000;

/** Follower tabs post their lists, the leading tab joins them. Each tab creates one. */
export class TabLists<T> {
  private readonly tab = newId();
  private readonly channel: BroadcastChannel | null;
  private readonly closing = new AbortController();
  private readonly others = new Map<string, { list: readonly T[]; heardAt: number }>();
  private readonly timer: ReturnType<typeof setInterval>;
  private own: readonly T[] = [];
  private isLeader = false;

  /** `onLists`: called in the leading tab whenever a list changes. */
  constructor(
    name: string,
    private readonly onLists: (lists: ReadonlyMap<string, readonly T[]>) => void,
  ) {
    // Without Web Locks each tab reads a stream of its own, and its list is its own.
    const shared = navigator.locks !== undefined && typeof BroadcastChannel !== "undefined";
    this.channel = shared ? new BroadcastChannel(name) : null;
    if (this.channel !== null)
      this.channel.onmessage = (event: MessageEvent<TabMessage<T>>) => this.onMessage(event.data);
    this.timer = setInterval(() => this.repeat(), REPEAT_MS);
    this.watchLeaving();
  }

  setOwn(list: readonly T[]): void {
    this.own = list;
    this.report();
  }

  /** This tab reads the stream from now on. */
  lead(): void {
    this.isLeader = true;
    this.post({ kind: "report" });
    this.onLists(this.lists);
  }

  close(): void {
    this.leave();
    this.closing.abort();
    clearInterval(this.timer);
    this.channel?.close();
  }

  private get lists(): ReadonlyMap<string, readonly T[]> {
    return new Map([
      [this.tab, this.own],
      ...[...this.others].map(([tab, { list }]) => [tab, list] as const),
    ]);
  }

  private report(): void {
    if (this.isLeader) this.onLists(this.lists);
    else this.post({ kind: "list", from: this.tab, list: this.own });
  }

  private leave(): void {
    if (!this.isLeader) this.post({ kind: "list", from: this.tab, list: [] });
  }

  private post(message: TabMessage<T>): void {
    if (!this.closing.signal.aborted) this.channel?.postMessage(message);
  }

  private onMessage(message: TabMessage<T>): void {
    if (message.kind === "report") {
      // Another tab leads: two never do at once, so this one does no longer.
      this.isLeader = false;
      this.report();
      return;
    }
    const known = this.others.get(message.from);
    if (message.list.length === 0) this.others.delete(message.from);
    else this.others.set(message.from, { list: message.list, heardAt: performance.now() });
    const isNew = JSON.stringify(known?.list ?? []) !== JSON.stringify(message.list);
    if (isNew && this.isLeader) this.onLists(this.lists);
  }

  private repeat(): void {
    if (!this.isLeader) {
      if (this.own.length > 0) this.report();
      return;
    }
    const oldest = performance.now() - FORGET_MS;
    const gone = [...this.others].filter(([, { heardAt }]) => heardAt < oldest);
    for (const [tab] of gone) this.others.delete(tab);
    if (gone.length > 0) this.onLists(this.lists);
  }

  private watchLeaving(): void {
    if (typeof window === "undefined") return;
    const { signal } = this.closing;
    window.addEventListener("pagehide", () => this.leave(), { signal });
    // The browser may keep a page that was left and show it again.
    window.addEventListener("pageshow", () => this.report(), { signal });
  }
}
