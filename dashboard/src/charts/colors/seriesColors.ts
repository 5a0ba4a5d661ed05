/** Colours of lines as the theme has them now. From the seventh on all are grey, until one is pointed at. */

export const SERIES = 6;

/** The colour of the line at a place. */
export function seriesColour(index: number): string {
  const name = index < SERIES ? `--series-${index + 1}` : "--line2";
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** The same colour where it must be read as text. */
export function seriesTextColour(index: number): string {
  const name = index >= SERIES ? "--t3" : index < 2 ? `--series-${index + 1}-text` : `--series-${index + 1}`;
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A colour for each id, kept for as long as it is known: one that comes later takes the first that is free. */
export class ColourBook {
  private readonly places = new Map<string, number>();

  placeOf(id: string): number {
    const known = this.places.get(id);
    if (known !== undefined) return known;
    const taken = new Set(this.places.values());
    let free = 0;
    while (taken.has(free)) free += 1;
    this.places.set(id, free);
    return free;
  }

  /** Frees the colours of all other ids. */
  keep(ids: readonly string[]): void {
    const wanted = new Set(ids);
    for (const id of [...this.places.keys()]) if (!wanted.has(id)) this.places.delete(id);
  }
}
