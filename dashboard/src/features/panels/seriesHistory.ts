/** Numbers that a hook pushes step by step, kept by the page so that they make a line. */

const MAX_POINTS = 10_000;

export interface Track {
  step: number[];
  value: number[];
}

/** What became of each name of one key; a step that comes again takes the place of what followed it. */
export class SeriesHistory {
  readonly tracks = new Map<string, Track>();

  push(step: number, values: readonly (readonly [name: string, value: number])[]): void {
    for (const [name, value] of values) {
      const track = this.tracks.get(name) ?? { step: [], value: [] };
      this.tracks.set(name, track);
      while (track.step.length && (track.step.at(-1) as number) >= step) {
        track.step.pop();
        track.value.pop();
      }
      track.step.push(step);
      track.value.push(value);
      if (track.step.length > MAX_POINTS) halve(track);
    }
  }
}

/** Every second point of the older half goes; the newest stay as they are. */
function halve(track: Track): void {
  const half = track.step.length >> 1;
  const kept = (_: number, index: number) => index >= half || index % 2 === 0;
  track.step = track.step.filter(kept);
  track.value = track.value.filter(kept);
}

const histories = new Map<string, SeriesHistory>();

/** The history of a key of a run; it outlives the panel that shows it. */
export function historyOf(runId: string, key: string): SeriesHistory {
  const name = JSON.stringify([runId, key]);
  const history = histories.get(name) ?? new SeriesHistory();
  histories.set(name, history);
  return history;
}
