/** Starts to load code that is drawn later. A failure is reported where the code is drawn: that loads it again. */
export function preload(load: () => Promise<unknown>): void {
  load().catch(() => undefined);
}
