import { beforeEach, describe, expect, it } from "vitest";
import type { CommandOut, StateOut, StreamMessage } from "@/api/types";
import { toggleOf, verbDisabledReason } from "./commandAvailability";
import { series, useRun } from "./store";

const state = (more: Partial<StateOut> = {}) =>
  ({
    number: 1,
    state: "running",
    step: 1,
    paused: false,
    parked: false,
    stopped: false,
    steps_left: null,
    ...more,
  }) as StateOut;
const hello = (resumed: boolean, seq = 0) =>
  ({
    type: "hello",
    run: "r",
    timeline: 0,
    seq,
    resumed,
    state: state(),
    breakpoints: [],
    version: "1",
    can_control: true,
    stream: "s",
    captures: true,
  }) as StreamMessage;
const command = (id: string, seq: number, status: CommandOut["status"]) =>
  ({ id, seq, status }) as CommandOut;

const live = () => useRun.getState();

beforeEach(() => live().follow("r"));

describe("the store of the run", () => {
  it("asks for everything again only when the sequence broke", () => {
    const before = live().restarts;
    live().applyMessage(hello(false), 0);
    expect(live().restarts).toBe(before + 1);
    live().applyMessage(hello(true), 0);
    expect(live().restarts).toBe(before + 1);
    live().applyMessage(hello(false, 40), 0);
    expect(live().restarts).toBe(before + 2);
    expect(series.seq).toBe(40);
  });

  it("sets steps aside where the record says that the run went, not at a step repeated on the way", () => {
    live().applyMessage(hello(false), 0);
    const rows = { type: "scalars", first_seq: 1, last_seq: 7, timeline: 0, step: [1, 2, 3, 4, 5] };
    live().applyMessage({ ...rows, columns: { loss: [5, 4, 3, 2, 1] } } as unknown as StreamMessage, 0);
    live().setState(state({ state: "replaying" as StateOut["state"], timeline: 1, step: 1, number: 2 }));
    const record = { kind: "rewind", timeline: 1, step: 3, from_step: 5 };
    live().applyMessage({ type: "event", seq: 8, record } as unknown as StreamMessage, 0);
    expect([...(series.get("loss")?.view().step ?? [])]).toEqual([1, 2, 3]);
    expect(series.get("loss")?.abandoned.map(({ step }) => [...step])).toEqual([[4, 5]]);
  });

  it("keeps the newer of two states that crossed on their way", () => {
    live().applyMessage(hello(false), 0);
    const stepping = state({ state: "stepping", step: 0, number: 2 });
    const paused = state({ state: "paused", paused: true, parked: true, number: 3 });
    live().setState(paused);
    // The stream tells late what it saw before the answer was made.
    live().applyMessage({ type: "state", state: stepping, dropped: 0 } as StreamMessage, 0);
    expect(live().state).toBe(paused);
    const stopped = state({ state: "stopped", stopped: true, number: 4 });
    live().applyMessage({ type: "state", state: stopped, dropped: 0 } as StreamMessage, 0);
    // An answer of the same step that was on its way all the while.
    live().setState(paused);
    expect(live().state).toBe(stopped);
    // The first message to the tab that takes the stream over, written before that answer.
    live().setLink("open", 0);
    live().applyMessage(hello(true), 0);
    expect(live().state).toBe(stopped);
    // Another process counts afresh; the link breaks before.
    live().setLink("lost", 0);
    live().setLink("open", 0);
    live().applyMessage(hello(true), 0);
    expect(live().state).toMatchObject({ state: "running", number: 1 });
  });

  it("replaces a command by its newer record and keeps the server's order", () => {
    live().putCommand(command("b", 2, "pending"));
    live().putCommand(command("a", 1, "done"));
    live().putCommand(command("b", 2, "done"));
    expect(live().commands.map(({ id, status }) => `${id} ${status}`)).toEqual(["a done", "b done"]);
  });

  it("grows stale with silence and fresh with any message", () => {
    live().setLink("open", 1_000);
    live().applyMessage(hello(true), 1_000);
    live().tick(4_000);
    expect(live().connection).toMatchObject({ status: "stale", ageS: 3 });
    live().applyMessage({ type: "ping", at: 0 }, 4_100);
    expect(live().connection).toMatchObject({ status: "live", ageS: 0 });
  });

  it("keeps the same connection object while nothing about it changed", () => {
    live().applyMessage(hello(true), 1_000);
    const before = live().connection;
    live().tick(1_400);
    expect(live().connection).toBe(before);
  });
});

describe("toggleOf", () => {
  it("stops what moves and lets go what stands", () => {
    expect(toggleOf(state())).toBe("pause");
    expect(toggleOf(state({ state: "stepping", paused: true }))).toBe("pause");
    expect(toggleOf(state({ state: "paused", paused: true }))).toBe("resume");
  });
});

describe("verbDisabledReason", () => {
  it("explains what cannot be done", () => {
    expect(verbDisabledReason("step", state(), "live")).toBe("Pause first");
    expect(verbDisabledReason("step", state({ paused: true, parked: true }), "live")).toBe(null);
    expect(verbDisabledReason("pause", state(), "live")).toBe(null);
    expect(verbDisabledReason("resume", state(), "live")).toBe("The run is already running");
    expect(verbDisabledReason("pause", state(), "view only")).toBe("This link is view-only");
    expect(verbDisabledReason("stop", state({ state: "finished" }), "live")).toBe("The run has ended");
    expect(verbDisabledReason("stop", state(), "reconnecting")).toContain("Reconnecting");
    expect(verbDisabledReason("stop", state(), "not responding")).toContain("does not answer");
  });

  it("lets a command be sent while messages are late: it waits for its answer", () => {
    expect(verbDisabledReason("step", state({ paused: true, parked: true }), "stale")).toBe(null);
  });
});
