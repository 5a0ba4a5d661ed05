import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FakeRun, fakeLocks, openTab } from "./fakeRun";
import { joinLists, MAX_ENTRIES, type Subscription, subscriptionId, WantedCaptures } from "./subscriptions";

type Tab = Awaited<ReturnType<typeof openTab>>;

const BATCH = { kind: "batch", first: 0, count: 64 } as const;
const LAYERS = { kind: "step_data", key: "layers" } as const;
const FORCES = { kind: "forces" } as const;
/** A page that is closed leaves nothing behind after this time. */
const GONE_MS = 2_000;

let run: FakeRun;
let tabs: Tab[];

async function open(): Promise<Tab> {
  const tab = await openTab();
  tabs.push(tab);
  return tab;
}

/** Steps are made until one captures exactly these. */
const captures = (...ids: string[]) =>
  vi.waitFor(() => expect(run.makeStep()).toEqual(ids), { timeout: GONE_MS, interval: 20 });

beforeEach(() => {
  run = new FakeRun();
  tabs = [];
  vi.stubGlobal("navigator", { locks: fakeLocks() });
  vi.stubGlobal("fetch", run.fetch);
});

afterEach(() => {
  for (const tab of tabs) tab.close();
  vi.unstubAllGlobals();
});

describe("what a run captures", () => {
  it("is nothing while the page shows nothing of its steps", async () => {
    await open();
    await vi.waitFor(() => expect(run.streams.size).toBe(1));
    expect(run.makeStep()).toEqual([]);
    expect(run.received).toEqual([]);
  });

  it("is what the panels show, in one list", async () => {
    const tab = await open();
    for (const spec of [BATCH, LAYERS, BATCH]) tab.show(spec);
    await captures("batch/0/64", "step_data/layers");
    expect(run.received).toHaveLength(1);
    expect(run.received[0]?.subscriptions).toEqual([
      { id: "batch/0/64", ...BATCH },
      { id: "step_data/layers", ...LAYERS },
    ]);
    await vi.waitFor(() => expect(Object.keys(tab.messages())).toEqual(["batch/0/64", "step_data/layers"]));
  });

  it("changes with the tab of the page", async () => {
    const tab = await open();
    const step = [tab.show(BATCH), tab.show(LAYERS)];
    await captures("batch/0/64", "step_data/layers");
    for (const hide of step) hide();
    tab.show(FORCES);
    await captures("forces");
    expect(run.received).toHaveLength(2);
    expect(run.received[1]?.version).toBeGreaterThan(run.received[0]?.version ?? 0);
  });

  it("is nothing within two seconds after the page is closed", async () => {
    const tab = await open();
    tab.show(BATCH);
    await captures("batch/0/64");
    tab.close();
    await captures();
  });

  it("is nothing while the tab is hidden, and the same again when it is shown", async () => {
    const tab = await open();
    tab.show(BATCH);
    await captures("batch/0/64");
    tab.setHidden(true);
    await captures();
    expect(run.received.at(-1)?.subscriptions).toEqual([]);
    tab.setHidden(false);
    await captures("batch/0/64");
  });

  it("is sent again after a lost connection", async () => {
    const tab = await open();
    tab.show(BATCH);
    await captures("batch/0/64");
    run.streams.get("stream-1")?.break();
    await captures("batch/0/64");
    expect(run.received.map(({ stream }) => stream)).toEqual(["stream-1", "stream-2"]);
  });

  it("is sent again when the server did not take the list", async () => {
    const refused = vi.fn().mockRejectedValueOnce(new TypeError("network"));
    vi.stubGlobal("fetch", (address: string, init?: RequestInit) =>
      init?.method === "PUT" && refused.mock.calls.length === 0 ? refused() : run.fetch(address, init),
    );
    (await open()).show(BATCH);
    await captures("batch/0/64");
    expect(refused).toHaveBeenCalledOnce();
  });
});

describe("several tabs", () => {
  it("send the union of their lists once, for the one stream that they share", async () => {
    const first = await open();
    first.show(BATCH);
    first.show(FORCES);
    await captures("batch/0/64", "forces");
    const second = await open();
    second.show(BATCH);
    second.show(LAYERS);
    await captures("batch/0/64", "forces", "step_data/layers");
    expect(run.streams.size).toBe(1);
    expect(run.received).toHaveLength(2);
    // Both get what is ready.
    await vi.waitFor(() => expect(second.messages()["batch/0/64"]).toBeDefined());
  });

  it("leave nothing of the one that is closed", async () => {
    (await open()).show(BATCH);
    await captures("batch/0/64");
    const second = await open();
    second.show(LAYERS);
    await captures("batch/0/64", "step_data/layers");
    second.close();
    await captures("batch/0/64");
  });

  it("keep theirs when the one that reads the stream is closed", async () => {
    const first = await open();
    first.show(BATCH);
    await captures("batch/0/64");
    const second = await open();
    second.show(LAYERS);
    const third = await open();
    third.show(FORCES);
    await captures("batch/0/64", "forces", "step_data/layers");
    first.close();
    await captures("forces", "step_data/layers");
    expect([...run.streams.keys()]).toEqual(["stream-2"]);
  });
});

describe("WantedCaptures", () => {
  it("counts users of a spec, and reports those that mount together once", async () => {
    const reported: string[][] = [];
    const wanted = new WantedCaptures((list) => reported.push(list.map(({ id }) => id)));
    const hide = [wanted.add(BATCH), wanted.add(BATCH), wanted.add(LAYERS)];
    await Promise.resolve();
    hide[0]?.();
    hide[0]?.(); // a second time counts no further user off
    await Promise.resolve();
    hide[1]?.();
    await Promise.resolve();
    expect(reported).toEqual([["batch/0/64", "step_data/layers"], ["step_data/layers"]]);
  });
});

describe("joinLists", () => {
  const batch = (first: number, count: number): Subscription => {
    const spec = { kind: "batch", first, count } as const;
    return { id: subscriptionId(spec), ...spec };
  };

  it("keeps within what the server takes", () => {
    const keys = Array.from({ length: 40 }, (_, index) => ({
      id: String(index),
      kind: "step_data" as const,
    }));
    expect(joinLists([keys])).toHaveLength(MAX_ENTRIES);
    const ranges = [batch(0, 256), batch(256, 256), batch(512, 64)];
    expect(joinLists([ranges.slice(0, 1), ranges]).map(({ id }) => id)).toEqual([
      "batch/0/256",
      "batch/256/256",
    ]);
  });

  it("gives long keys short ids that differ", () => {
    const long = "x".repeat(500);
    const ids = ["a", "b"].map((end) => subscriptionId({ kind: "step_data", key: long + end }));
    expect(new Set(ids).size).toBe(2);
    for (const id of ids) expect(id.length).toBeLessThanOrEqual(128);
  });
});
