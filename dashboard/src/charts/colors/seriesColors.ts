/** Colours of lines as the theme has them now. From the seventh on all are grey, until one is pointed at. */

export const SERIES = 6;

/** The colour of a line by its slot. */
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
export class ColorAssignments {
  private readonly slots = new Map<string, number>();

  slotOf(id: string): number {
    const known = this.slots.get(id);
    if (known !== undefined) return known;
    const taken = new Set(this.slots.values());
    let free = 0;
    while (taken.has(free)) free += 1;
    this.slots.set(id, free);
    return free;
  }

  /** Frees the colours of all other ids. */
  keep(ids: readonly string[]): void {
    const wanted = new Set(ids);
    for (const id of [...this.slots.keys()]) if (!wanted.has(id)) this.slots.delete(id);
  }
}
