/** One cursor over several charts: where the pointer is in one of them, all draw it. */

export class CursorSync {
  private readonly listeners = new Set<(x: number | null, source: unknown) => void>();
  x: number | null = null;

  /** Moves the cursor of all charts; `source` is the one that did. */
  set(x: number | null, source: unknown): void {
    if (x === this.x) return;
    this.x = x;
    for (const listener of this.listeners) listener(x, source);
  }

  subscribe(listener: (x: number | null, source: unknown) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}
