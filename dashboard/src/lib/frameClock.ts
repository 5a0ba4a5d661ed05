/** The beat of the page: what goes on for as long as a run does happens at the same moments everywhere. */
import { flushSync } from "react-dom";

/** The first beat that is not too soon after `at`; after a moment that kept to the beat, the one that follows it. */
export function nextTick(at: number, intervalMs: number): number {
  return intervalMs === 0 ? at : Math.ceil((at + intervalMs / 2) / intervalMs) * intervalMs;
}

/** Five pictures a second of a run that goes on: more than one reads, and a training on this machine pays for each. */
const REDRAW_MS = 200;

type Draw = () => void;

/** What waits, by the moment of its picture. */
const waiting = new Map<number, Set<Draw>>();

/**
 * Calls `draw` with the first picture of a run that goes on at `at` or later, together with all that wait for it: each
 * picture costs the same again, however little is new in it. Returns how to take that back.
 */
export function onFrameAt(at: number, draw: Draw): () => void {
  const moment = Math.ceil(at / REDRAW_MS) * REDRAW_MS;
  const others = waiting.get(moment);
  const all = others ?? new Set();
  all.add(draw);
  if (others === undefined) {
    waiting.set(moment, all);
    // A fraction of a millisecond is cut off, and a picture before its moment would be followed by another at it.
    setTimeout(() => drawAll(moment, all), Math.ceil(moment - performance.now()));
  }
  return () => void all.delete(draw);
}

/** The same with the next picture. */
export const onNextFrame = (draw: Draw): (() => void) => onFrameAt(performance.now(), draw);

function drawAll(moment: number, all: ReadonlySet<Draw>): void {
  waiting.delete(moment);
  // What they tell React would else be shown in several pictures, by where it comes from.
  flushSync(() => {
    for (const draw of all) {
      try {
        draw();
      } catch (error) {
        // Each of the others waits for this call only and would never be drawn again.
        reportError(error);
      }
    }
  });
}
