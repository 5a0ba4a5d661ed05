/** The beat of the page: what goes on for as long as a run does happens at the same moments everywhere. */

/** The first beat that is not too soon after `at`; after a moment that kept to the beat, the one that follows it. */
export function nextBeat(at: number, beatMs: number): number {
  return beatMs === 0 ? at : Math.ceil((at + beatMs / 2) / beatMs) * beatMs;
}
