/** One clock for the page: everything that repeats while a run trains happens at the same moments. */
import { flushSync } from "react-dom";

/** The first tick that is at least half an interval after `at`. */
export function nextTick(at: number, intervalMs: number): number {
  return intervalMs === 0 ? at : Math.ceil((at + intervalMs / 2) / intervalMs) * intervalMs;
}

/** Five frames a second while a run trains: more cannot be read, and each costs time of a training on this machine. */
const REDRAW_MS = 200;

type Draw = () => void;

/** Callbacks that wait, by the time of their frame. */
const waiting = new Map<number, Set<Draw>>();

/**
 * Calls `draw` with the first frame at `at` or later, together with all others that wait for it: a frame costs the
 * same however little is new in it. Returns how to cancel.
 */
export function onFrameAt(at: number, draw: Draw): () => void {
  const moment = Math.ceil(at / REDRAW_MS) * REDRAW_MS;
  const others = waiting.get(moment);
  const all = others ?? new Set();
  all.add(draw);
  if (others === undefined) {
    waiting.set(moment, all);
    // `setTimeout` cuts off fractions of a millisecond, and a frame before its time would be followed by another.
    setTimeout(() => drawAll(moment, all), Math.ceil(moment - performance.now()));
  }
  return () => void all.delete(draw);
}

/** Calls `draw` with the next frame. */
export const onNextFrame = (draw: Draw): (() => void) => onFrameAt(performance.now(), draw);

function drawAll(moment: number, all: ReadonlySet<Draw>): void {
  waiting.delete(moment);
  // Otherwise React draws the updates in several frames, by where they come from.
  flushSync(() => {
    for (const draw of all) draw();
  });
}
