import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { nextTick, onFrameAt, onNextFrame } from "./frameClock";

describe("onFrameAt", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  /** Draws that note their names and when they came. */
  function noted() {
    const drawn: [name: string, at: number][] = [];
    const begun = Math.ceil(performance.now() / 1000) * 1000;
    vi.advanceTimersByTime(begun - performance.now());
    const draw = (name: string) => () => void drawn.push([name, performance.now() - begun]);
    return { begun, drawn, draw };
  }

  it("draws all that wait for a picture in the same one, five times a second", () => {
    const { begun, drawn, draw } = noted();
    vi.advanceTimersByTime(30);
    onNextFrame(draw("told"));
    vi.advanceTimersByTime(60);
    onNextFrame(draw("answered"));
    onFrameAt(begun + 1000, draw("on the beat"));
    vi.advanceTimersByTime(760);
    onNextFrame(draw("told again"));
    vi.advanceTimersByTime(1000);
    expect(drawn).toEqual([
      ["told", 200],
      ["answered", 200],
      ["on the beat", 1000],
      ["told again", 1000],
    ]);
  });

  it("comes on the beat itself, which is the moment of a picture", () => {
    const { begun, drawn, draw } = noted();
    onFrameAt(nextTick(begun + 210, 1000), draw("beat"));
    vi.advanceTimersByTime(3000);
    expect(drawn).toEqual([["beat", 1000]]);
  });

  it("leaves out what was taken back, and goes on with what comes after it", () => {
    const { drawn, draw } = noted();
    vi.advanceTimersByTime(10);
    const cancel = onNextFrame(draw("gone"));
    cancel();
    onNextFrame(draw("kept"));
    vi.advanceTimersByTime(200);
    cancel();
    onNextFrame(draw("later"));
    vi.advanceTimersByTime(200);
    expect(drawn.map(([name]) => name)).toEqual(["kept", "later"]);
  });
});
