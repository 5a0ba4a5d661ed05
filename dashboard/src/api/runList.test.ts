import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ApiError } from "./client";
import { NEWEST_RUNS, RunListFeed, useRunTable, wantAllRuns, withChanges } from "./runList";
import type { Problem, RunListing, RunRow } from "./types";

/** Only a test that fails waits this long, on a machine that may be busy. */
const PATIENCE_MS = 20_000;
vi.setConfig({ testTimeout: 3 * PATIENCE_MS });

const row = (id: string, step = 0, started_at: number | null = null) => ({ id, step, started_at }) as RunRow;
const listing = (runs: RunRow[], total = runs.length): RunListing => ({
  runs,
  total,
  matching: total,
  states: { running: total },
  groups: null,
  columns: { config: [], summary: [] },
  can_start: true,
  has_stream: true,
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
    useRunTable.setState(useRunTable.getInitialState(), true);
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

  const settled = (check: () => void) => vi.waitFor(check, PATIENCE_MS);
  const table = () => useRunTable.getState();

  it("reads the newest runs only, until a page shows all of them", async () => {
    const all = Array.from({ length: 1500 }, (_, index) => row(`r${index}`));
    const paths: string[] = [];
    const feed = new RunListFeed(async (path) => {
      paths.push(path);
      const query = new URLSearchParams(path.split("?")[1]);
      const offset = Number(query.get("offset"));
      return listing(all.slice(offset, offset + Number(query.get("limit"))), all.length);
    });
    await settled(() => expect(table().streaming).toBe(true));
    await settled(() => expect(table().rows.size).toBe(50));
    expect(new Set(paths)).toEqual(new Set([NEWEST_RUNS]));
    const stop = wantAllRuns();
    feed.readAgain();
    await settled(() => expect([table().rows.size, table().complete]).toEqual([1500, true]));
    stop();
    feed.close();
  });

  it("follows the stream, with older runs behind newer ones", async () => {
    const rows = [row("b", 0, 20), row("a", 0, 10)];
    const feed = new RunListFeed(async () => listing(rows, 3));
    await settled(() => expect(write).not.toBeNull());
    await settled(() => expect(ids()).toEqual(["b", "a"]));
    const runs = [row("new", 3, 30), row("old", 4, 5)];
    write?.({ type: "runs", runs, removed: ["a"], states: { running: 1 }, total: 3 });
    await settled(() => expect(ids()).toEqual(["new", "b", "old"]));
    expect(table().states).toEqual({ running: 1 });
    feed.close();
  });

  it("keeps what the stream said while the list was on its way", async () => {
    const answers: ((list: RunListing) => void)[] = [];
    const feed = new RunListFeed(() => new Promise((resolve) => answers.push(resolve)));
    answers[0]?.(listing([row("a", 1)]));
    await settled(() => expect(answers).toHaveLength(2)); // the stream has opened
    write?.({ type: "runs", runs: [row("a", 9)], removed: [], states: {}, total: 1 });
    await settled(() => expect(table().rows.get("a")?.step).toBe(9));
    answers[1]?.(listing([row("a", 4)], 1));
    await settled(() => expect(table().states).toEqual({}));
    expect(table().rows.get("a")?.step).toBe(9);
    feed.close();
  });

  it("opens no stream where the server has none, and polls only for a page of all runs", async () => {
    let requests = 0;
    const feed = new RunListFeed(async () => {
      requests += 1;
      return { ...listing([row("a", requests)]), has_stream: false };
    });
    await settled(() => expect(table().loaded).toBe(true));
    await vi.advanceTimersByTimeAsync(20_000);
    expect([requests, write]).toEqual([1, null]);
    const stop = wantAllRuns();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(requests).toBeGreaterThan(1);
    stop();
    feed.close();
  });

  it("says that the token was refused, and does not try again", async () => {
    let requests = 0;
    const feed = new RunListFeed(async () => {
      requests += 1;
      throw new ApiError(401, { error: "token", message: "not valid" } as Problem);
    });
    await settled(() => expect(table().refused).toBe(true));
    await vi.advanceTimersByTimeAsync(20_000);
    expect(requests).toBe(1);
    feed.close();
  });
});
