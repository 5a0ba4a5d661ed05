/** For tests: a run that counts what it captures, and a browser with several tabs. */
import { vi } from "vitest";
import type { Subscription, SubscriptionBody } from "./subscriptions";

const encoder = new TextEncoder();

interface Stream {
  send: (message: object, id?: string) => void;
  break: () => void;
  list: readonly Subscription[];
}

/** A server of one run: streams, subscriptions, and steps that capture what is subscribed. */
export class FakeRun {
  /** Open streams by id, oldest first. */
  readonly streams = new Map<string, Stream>();
  /** Bodies of all lists that were sent, with the stream that they were sent for. */
  readonly received: (SubscriptionBody & { stream: string })[] = [];
  private opened = 0;
  private step = 0;

  /** Makes a step; answers the ids that it captured, each once, however many streams show it. */
  makeStep(): string[] {
    this.step += 1;
    const captured = new Set<string>();
    for (const { send, list } of this.streams.values()) {
      for (const { id } of list) {
        captured.add(id);
        const etag = `${this.step}.0.1`;
        send({ type: "capture", id, step: this.step, timeline: 0, etag, bytes: 1, thinning: null });
      }
    }
    return [...captured].sort();
  }

  readonly fetch = async (address: string, init: RequestInit = {}): Promise<Response> => {
    if (address.startsWith("/api/v1/stream")) return this.open(init);
    const [, stream] = /\/debug\/streams\/([^/]+)\/subscriptions$/.exec(address) ?? [];
    if (stream !== undefined && init.method === "PUT") return this.subscribe(stream, String(init.body));
    return Response.json([]);
  };

  private open(init: RequestInit): Response {
    this.opened += 1;
    const id = `stream-${this.opened}`;
    let controller!: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({
      start: (created) => {
        controller = created;
      },
    });
    const end = (how: () => void) => {
      // Its list ends with the stream.
      if (this.streams.delete(id)) how();
    };
    this.streams.set(id, {
      send: (message) => controller.enqueue(encoder.encode(`data: ${JSON.stringify(message)}\n\n`)),
      break: () => end(() => controller.error(new TypeError("network"))),
      list: [],
    });
    init.signal?.addEventListener("abort", () => end(() => controller.close()));
    const state = { number: 1, step: this.step, timeline: 0, parked: false, state: "running" };
    this.streams.get(id)?.send({
      type: "hello",
      run: "r1",
      timeline: 0,
      seq: 0,
      resumed: false,
      state,
      breakpoints: [],
      version: "1",
      can_control: true,
      stream: id,
      captures: true,
    });
    return new Response(body, { status: 200 });
  }

  private subscribe(id: string, text: string): Response {
    const stream = this.streams.get(id);
    const body = JSON.parse(text) as SubscriptionBody;
    if (stream === undefined)
      return Response.json({ error: "no_stream", message: "no stream" }, { status: 404 });
    this.received.push({ ...body, stream: id });
    stream.list = body.subscriptions;
    return Response.json({ stream: id, version: body.version, accepted: [] });
  }
}

/** Locks of one browser: the first asker holds, the others wait in line. */
export function fakeLocks() {
  let line = Promise.resolve();
  const pending: { name: string }[] = [];
  return {
    query: async () => ({ held: [], pending }),
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
}

class FakeDocument extends EventTarget {
  hidden = false;
}

/** A tab that follows the run; its modules are its own, as in a browser. */
export async function openTab() {
  vi.resetModules();
  const document = new FakeDocument();
  vi.stubGlobal("document", document);
  const { followRun } = await import("./followRun");
  const { useCaptureMessages, wantedCaptures } = await import("./captures");
  const close = followRun("r1");
  return {
    show: (spec: Parameters<typeof wantedCaptures.add>[0]) => wantedCaptures.add(spec),
    messages: () => useCaptureMessages.getState(),
    setHidden: (hidden: boolean) => {
      vi.stubGlobal("document", document);
      document.hidden = hidden;
      document.dispatchEvent(new Event("visibilitychange"));
    },
    close,
  };
}
