import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { RunState, StreamMessage } from "@/api/types";
import { MessageBuffer } from "./messageBuffer";

const stateMessage = (state: RunState, step: number) =>
  ({ type: "state", state: { state, step } }) as StreamMessage;
const scalars = { type: "scalars" } as StreamMessage;
const command = { type: "command" } as StreamMessage;

describe("MessageBuffer", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  function setUp() {
    const taken: StreamMessage[] = [];
    const moments = new Set<number>();
    const buffer = new MessageBuffer((message) => {
      taken.push(message);
      moments.add(performance.now());
    });
    return { taken, moments, buffer };
  }

  it("hands on all that a run tells in one fifth of a second together, in order", async () => {
    const { taken, moments, buffer } = setUp();
    buffer.push(stateMessage("running", 0));
    const sent = [];
    for (let step = 1; step <= 10; step += 1) {
      sent.push(stateMessage("running", step), scalars);
      buffer.push(sent.at(-2) as StreamMessage);
      buffer.push(scalars);
      await vi.advanceTimersByTimeAsync(100);
    }
    await vi.advanceTimersByTimeAsync(200);
    expect(taken.slice(1)).toEqual(sent);
    expect(moments.size).toBeLessThanOrEqual(7);
  });

  it("hands on at once that the run has paused, and what waited before it", () => {
    const { taken, buffer } = setUp();
    buffer.push(stateMessage("running", 0));
    buffer.push(stateMessage("running", 1));
    buffer.push(scalars);
    expect(taken.length).toBe(1);
    buffer.push(stateMessage("paused", 2));
    expect(taken.length).toBe(4);
    buffer.push(scalars);
    expect(taken.length).toBe(5);
  });

  it("keeps nothing else waiting", () => {
    const { taken, buffer } = setUp();
    buffer.push(stateMessage("running", 0));
    buffer.push(scalars);
    buffer.push(command);
    expect(taken).toEqual([stateMessage("running", 0), scalars, command]);
  });

  it("keeps nothing waiting in a tab nobody sees", () => {
    const taken: StreamMessage[] = [];
    const buffer = new MessageBuffer(
      (message) => taken.push(message),
      () => false,
    );
    buffer.push(stateMessage("running", 0));
    buffer.push(scalars);
    expect(taken.length).toBe(2);
  });

  it("is silent once it is closed", async () => {
    const { taken, buffer } = setUp();
    buffer.push(stateMessage("running", 0));
    buffer.push(scalars);
    buffer.close();
    await vi.advanceTimersByTimeAsync(500);
    expect(taken.length).toBe(1);
  });
});
