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

/**
 * A slot for each id, kept while it is shown and remembered while it is hidden.
 *
 * An id that comes later takes the first slot that nothing has or had; only when all colours are taken does it get that of
 * a hidden one, so that what is hidden and shown again keeps its colour.
 */
export class ColorAssignments {
  private readonly slots = new Map<string, number>();
  private hidden = new Set<string>();

  slotOf(id: string): number {
    const known = this.slots.get(id);
    if (known !== undefined) {
      this.hidden.delete(id);
      return known;
    }
    const slot = this.firstFree();
    this.slots.set(id, slot);
    return slot;
  }

  /** Those that are shown; others lose their slots when they are needed. */
  keep(ids: readonly string[]): void {
    const shown = new Set(ids);
    // One that was grey may have a colour when it comes back.
    for (const id of this.hidden) {
      if (shown.has(id) && (this.slots.get(id) ?? 0) >= SERIES) this.slots.delete(id);
    }
    this.hidden = new Set([...this.slots.keys()].filter((id) => !shown.has(id)));
  }

  private firstFree(): number {
    const owners = new Map([...this.slots].map(([id, slot]) => [slot, id]));
    let free = 0;
    while (owners.has(free)) free += 1;
    if (free < SERIES) return free;
    let slot = 0;
    while (owners.has(slot) && !this.hidden.has(owners.get(slot) ?? "")) slot += 1;
    const before = owners.get(slot);
    if (before !== undefined) {
      this.slots.delete(before);
      this.hidden.delete(before);
    }
    return slot;
  }
}
