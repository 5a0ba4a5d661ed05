import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ThrottledValue } from "./useThrottledStore";

describe("ThrottledValue", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  function setUp(intervalMs: number) {
    const held = { step: 0 };
    const shown: [number, number][] = [];
    const throttled = new ThrottledValue(
      () => held.step,
      (step) => shown.push([step, performance.now()]),
      intervalMs,
    );
    const set = (step: number) => {
      held.step = step;
      throttled.look();
    };
    return { shown, throttled, set };
  }

  it("takes over the newest on each beat while steps run by", async () => {
    const { shown, set } = setUp(1000);
    for (let step = 1; step <= 400; step += 1) {
      set(step);
      await vi.advanceTimersByTimeAsync(10);
    }
    await vi.advanceTimersByTimeAsync(1000);
    expect(shown.length).toBeLessThanOrEqual(6);
    expect(shown.slice(1).every(([, at]) => at % 1000 === 0)).toBe(true);
    expect(shown.at(-1)?.[0]).toBe(400);
  });

  it("waits for no beat when nothing changed at the last one", async () => {
    const { shown, set } = setUp(1000);
    await vi.advanceTimersByTimeAsync(2300);
    set(0);
    expect(shown.length).toBe(1);
    set(1);
    expect(shown.at(-1)?.[0]).toBe(1);
  });

  it("takes over everything at once without a beat", () => {
    const { shown, set } = setUp(0);
    set(1);
    set(2);
    expect(shown.map(([step]) => step)).toEqual([0, 1, 2]);
  });

  it("shows nothing more once closed", async () => {
    const { shown, set, throttled } = setUp(1000);
    set(1);
    throttled.close();
    await vi.advanceTimersByTimeAsync(3000);
    expect(shown.length).toBe(1);
  });
});
