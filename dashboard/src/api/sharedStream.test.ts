import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type Link, RunStream, tooManyStreams } from "./sharedStream";
import type { StreamMessage } from "./types";

/** Only a test that fails waits this long, on a machine that may be busy. */
const PATIENCE_MS = 20_000;
vi.setConfig({ testTimeout: 3 * PATIENCE_MS });

const encoder = new TextEncoder();

/** A connection of the server, to be fed and broken by the test. */
class Connection {
  readonly lastId: string | null;
  readonly response: Response;
  private controller!: ReadableStreamDefaultController<Uint8Array>;

  constructor(init: RequestInit | undefined) {
    this.lastId = new Headers(init?.headers).get("Last-Event-ID");
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.controller = controller;
      },
    });
    this.response = new Response(body, { status: 200 });
    init?.signal?.addEventListener("abort", () => this.close());
  }

  send(id: string, message: object): void {
    this.controller.enqueue(encoder.encode(`${id ? `id: ${id}\n` : ""}data: ${JSON.stringify(message)}\n\n`));
  }

  break(): void {
    this.controller.error(new TypeError("network"));
  }

  private close(): void {
    try {
      this.controller.close();
    } catch {
      // It was broken before; there is nothing left to close.
    }
  }
}

/** Locks of one browser: the first asker holds, the others wait in line. */
function fakeLocks() {
  let line = Promise.resolve();
  const pending: { name: string }[] = [];
  const locks = {
    pending,
    query: async () => locks,
    request: (name: string, { signal }: { signal: AbortSignal }, run: () => Promise<void>) => {
      pending.push({ name });
      const turn = line.then(() => {
        pending.shift();
        return signal.aborted ? undefined : run();
      });
      line = turn.catch(() => undefined).then(() => undefined);
      return turn;
    },
  };
  return locks;
}

class Tab {
  readonly received: StreamMessage[] = [];
  readonly links: Link[] = [];
  readonly stream = new RunStream("r1", {
    onMessage: (message) => void this.received.push(message),
    onLink: (link) => void this.links.push(link),
  });

  get seqs(): number[] {
    return this.received.flatMap((message) => (message.type === "scalars" ? [message.last_seq] : []));
  }
}

const hello = { type: "hello", run: "r1", timeline: 0, seq: 0, resumed: false, state: {}, breakpoints: [] };
const scalars = (seq: number) => ({
  type: "scalars",
  first_seq: seq,
  last_seq: seq,
  timeline: 0,
  step: [seq],
  columns: {},
});

let connections: Connection[];
let tabs: Tab[];

function open(): Tab {
  const tab = new Tab();
  tabs.push(tab);
  return tab;
}

async function connection(index: number): Promise<Connection> {
  await vi.waitFor(() => expect(connections.length).toBeGreaterThan(index), PATIENCE_MS);
  return connections[index] as Connection;
}

const eventually = (check: () => void) => vi.waitFor(check, PATIENCE_MS);

beforeEach(() => {
  connections = [];
  tabs = [];
  vi.stubGlobal("navigator", {});
  vi.stubGlobal("fetch", async (_: string, init?: RequestInit) => {
    const next = new Connection(init);
    connections.push(next);
    return next.response;
  });
});

afterEach(() => {
  for (const tab of tabs) tab.stream.close();
  vi.unstubAllGlobals();
});

describe("RunStream", () => {
  it("goes on from the last durable message after a break", async () => {
    const tab = open();
    const first = await connection(0);
    first.send("", hello);
    first.send("0.1", scalars(1));
    first.send("", { type: "ping", at: 0 });
    await eventually(() => expect(tab.received).toHaveLength(3));
    first.break();
    const second = await connection(1);
    expect([first.lastId, second.lastId]).toEqual([null, "0.1"]);
    second.send("0.2", scalars(2));
    await eventually(() => expect(tab.seqs).toEqual([1, 2]));
    expect(tab.links).toEqual(["connecting", "open", "lost", "open"]);
  });

  it("says that it was refused", async () => {
    vi.stubGlobal("fetch", async () => new Response("{}", { status: 401 }));
    const tab = open();
    await eventually(() => expect(tab.links).toContain("denied"));
  });

  it("is read once for two tabs, and the second takes over where the first left", async () => {
    vi.stubGlobal("navigator", { locks: fakeLocks() });
    const leader = open();
    const first = await connection(0);
    first.send("", hello);
    first.send("0.1", scalars(1));
    await eventually(() => expect(leader.seqs).toEqual([1]));

    const follower = open();
    await eventually(() =>
      expect(follower.received[0]).toMatchObject({ type: "hello", seq: 1, resumed: false }),
    );
    first.send("0.2", scalars(2));
    await eventually(() => expect(follower.seqs).toEqual([2]));
    expect(connections).toHaveLength(1);

    leader.stream.close();
    const second = await connection(1);
    expect(second.lastId).toBe("0.2");
    second.send("0.3", scalars(3));
    await eventually(() => expect(follower.seqs).toEqual([2, 3]));
  });

  it("tells other tabs that the server is lost, but not that its own page is left", async () => {
    vi.stubGlobal("navigator", { locks: fakeLocks() });
    const page = new EventTarget();
    vi.stubGlobal("window", page);
    open();
    (await connection(0)).send("", hello);
    const follower = open();
    await eventually(() => expect(follower.received).toHaveLength(1));
    (await connection(0)).break();
    (await connection(1)).send("", hello);
    await eventually(() => expect(follower.received).toHaveLength(2));
    expect(follower.links).toEqual(["connecting", "open", "lost", "open"]);

    page.dispatchEvent(new Event("pagehide"));
    (await connection(1)).break();
    (await connection(2)).send("", hello);
    await eventually(() => expect(follower.received).toHaveLength(3));
    expect(follower.links).toEqual(["connecting", "open", "lost", "open"]);
  });

  it("tells other tabs nothing while there are none", async () => {
    const posted = vi.spyOn(BroadcastChannel.prototype, "postMessage");
    const kinds = () => posted.mock.calls.map(([{ kind }]) => kind);
    vi.stubGlobal("navigator", { locks: fakeLocks() });
    const alone = open();
    (await connection(0)).send("", hello);
    await eventually(() => expect(alone.received).toHaveLength(1));
    expect(kinds()).toEqual(["join"]);
    alone.stream.close();

    // One that waits listens, also where its word did not arrive.
    const locks = fakeLocks();
    vi.stubGlobal("navigator", { locks });
    const leader = open();
    locks.pending.push(...locks.pending);
    (await connection(1)).send("", hello);
    await eventually(() => expect(leader.received).toHaveLength(1));
    expect(kinds()).toEqual(["join", "join", "link", "message"]);
    posted.mockRestore();
  });
});

describe("tooManyStreams", () => {
  const holding = (...names: string[]) =>
    vi.stubGlobal("navigator", { locks: { query: async () => ({ held: names.map((name) => ({ name })) }) } });

  it("counts the streams of this page only", async () => {
    holding("midstep-runs-1", "midstep-stream-a-1", "another");
    expect(await tooManyStreams()).toBe(false);
    holding("midstep-runs-1", "midstep-stream-a-1", "midstep-stream-b-1");
    expect(await tooManyStreams()).toBe(true);
  });

  it("is never so where there are no locks, and each tab reads for itself", async () => {
    vi.stubGlobal("navigator", {});
    expect(await tooManyStreams()).toBe(false);
  });
});
