import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { RunListFeed, useRunTable, withChanges } from "./runList";
import type { RunListing, RunRow } from "./types";

/** Only a test that fails waits this long, on a machine that may be busy. */
const PATIENCE_MS = 20_000;
vi.setConfig({ testTimeout: 3 * PATIENCE_MS });

const row = (id: string, step = 0) => ({ id, step }) as RunRow;
const listing = (runs: RunRow[], total = runs.length): RunListing => ({
  runs,
  total,
  matching: total,
  states: { running: total },
  groups: null,
  columns: { config: [], summary: [] },
  can_start: true,
});
const ids = () => [...useRunTable.getState().rows.keys()];

describe("withChanges", () => {
  it("changes rows in their place, puts new ones in front and takes removed ones out", () => {
    const before = new Map([row("b"), row("a")].map((run) => [run.id, run]));
    const after = withChanges(before, { runs: [row("a", 5), row("c")], removed: ["b"] });
    expect([...after.values()].map(({ id, step }) => `${id}${step}`)).toEqual(["c0", "a5"]);
    expect(before.size).toBe(2);
  });
});

describe("RunListFeed", () => {
  let write: ((message: object) => void) | null = null;

  beforeEach(() => {
    write = null;
    vi.useFakeTimers();
    vi.stubGlobal("navigator", {});
    vi.stubGlobal("fetch", async (_: string, { signal }: RequestInit) => {
      const body = new ReadableStream<Uint8Array>({
        start: (controller) => {
          const encoder = new TextEncoder();
          write = (message) => controller.enqueue(encoder.encode(`data: ${JSON.stringify(message)}\n\n`));
          signal?.addEventListener("abort", () => controller.close());
        },
      });
      return new Response(body, { status: 200 });
    });
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("reads all pages, then follows the stream", async () => {
    const all = Array.from({ length: 1500 }, (_, index) => row(`r${index}`));
    const feed = new RunListFeed(async (offset, limit) =>
      listing(all.slice(offset, offset + limit), all.length),
    );
    await vi.waitFor(() => expect(useRunTable.getState().rows.size).toBe(1500), PATIENCE_MS);
    await vi.waitFor(() => expect(useRunTable.getState().streaming).toBe(true), PATIENCE_MS);
    write?.({ type: "runs", runs: [row("new", 3)], removed: ["r7"], states: { running: 1 }, total: 1500 });
    await vi.waitFor(() => expect(ids()[0]).toBe("new"), PATIENCE_MS);
    expect(useRunTable.getState().rows.has("r7")).toBe(false);
    expect(useRunTable.getState().states).toEqual({ running: 1 });
    feed.close();
  });

  it("keeps what the stream said while the list was on its way", async () => {
    let answer: (list: RunListing) => void = () => undefined;
    const promise = new Promise<RunListing>((resolve) => {
      answer = resolve;
    });
    const feed = new RunListFeed(() => promise);
    await vi.waitFor(() => expect(useRunTable.getState().streaming).toBe(true), PATIENCE_MS);
    write?.({ type: "runs", runs: [row("a", 9)], removed: [], states: {}, total: 1 });
    await vi.waitFor(() => expect(useRunTable.getState().rows.get("a")?.step).toBe(9), PATIENCE_MS);
    answer(listing([row("a", 4)]));
    await vi.waitFor(() => expect(useRunTable.getState().loaded).toBe(true), PATIENCE_MS);
    expect(useRunTable.getState().rows.get("a")?.step).toBe(9);
    feed.close();
  });

  it("asks again and again where the server streams one run only", async () => {
    let requests = 0;
    const feed = new RunListFeed(async () => {
      requests += 1;
      return listing([row("a", requests)]);
    });
    await vi.waitFor(() => expect(write).not.toBeNull(), PATIENCE_MS);
    write?.({ type: "hello" });
    await vi.waitFor(() => expect(useRunTable.getState().streaming).toBe(false), PATIENCE_MS);
    const before = requests;
    await vi.advanceTimersByTimeAsync(5_000);
    expect(requests).toBeGreaterThan(before);
    feed.close();
  });
});
