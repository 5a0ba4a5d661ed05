import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { RunState, StreamMessage } from "@/api/types";
import { Inbox } from "./messageBuffer";

const told = (state: RunState, step: number) => ({ type: "state", state: { state, step } }) as StreamMessage;
const scalars = { type: "scalars" } as StreamMessage;
const command = { type: "command" } as StreamMessage;

describe("Inbox", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  function made() {
    const taken: StreamMessage[] = [];
    const moments = new Set<number>();
    const inbox = new Inbox((message) => {
      taken.push(message);
      moments.add(performance.now());
    });
    return { taken, moments, inbox };
  }

  it("hands on all that a run tells in one fifth of a second together, in order", async () => {
    const { taken, moments, inbox } = made();
    inbox.receive(told("running", 0));
    const sent = [];
    for (let step = 1; step <= 10; step += 1) {
      sent.push(told("running", step), scalars);
      inbox.receive(sent.at(-2) as StreamMessage);
      inbox.receive(scalars);
      await vi.advanceTimersByTimeAsync(100);
    }
    await vi.advanceTimersByTimeAsync(200);
    expect(taken.slice(1)).toEqual(sent);
    expect(moments.size).toBeLessThanOrEqual(7);
  });

  it("hands on at once that the run has paused, and what waited before it", () => {
    const { taken, inbox } = made();
    inbox.receive(told("running", 0));
    inbox.receive(told("running", 1));
    inbox.receive(scalars);
    expect(taken.length).toBe(1);
    inbox.receive(told("paused", 2));
    expect(taken.length).toBe(4);
    inbox.receive(scalars);
    expect(taken.length).toBe(5);
  });

  it("keeps nothing else waiting", () => {
    const { taken, inbox } = made();
    inbox.receive(told("running", 0));
    inbox.receive(scalars);
    inbox.receive(command);
    expect(taken).toEqual([told("running", 0), scalars, command]);
  });

  it("keeps nothing waiting in a tab nobody sees", () => {
    const taken: StreamMessage[] = [];
    const inbox = new Inbox(
      (message) => taken.push(message),
      () => false,
    );
    inbox.receive(told("running", 0));
    inbox.receive(scalars);
    expect(taken.length).toBe(2);
  });

  it("is silent once it is closed", async () => {
    const { taken, inbox } = made();
    inbox.receive(told("running", 0));
    inbox.receive(scalars);
    inbox.close();
    await vi.advanceTimersByTimeAsync(500);
    expect(taken.length).toBe(1);
  });
});
