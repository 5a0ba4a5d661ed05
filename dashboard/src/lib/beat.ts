/** The beat of the page: what goes on for as long as a run does happens at the same moments everywhere. */

/** The first beat that is not too soon after `at`; after a moment that kept to the beat, the one that follows it. */
export function nextBeat(at: number, beatMs: number): number {
  return beatMs === 0 ? at : Math.ceil((at + beatMs / 2) / beatMs) * beatMs;
}

/** Five pictures a second of a run that goes on: more than one reads, and a training on this machine pays for each. */
const REDRAW_MS = 200;

/** Milliseconds to the next picture of a run that goes on; what came since the last is drawn in it together. */
export function untilRedraw(): number {
  return REDRAW_MS - (performance.now() % REDRAW_MS);
}
