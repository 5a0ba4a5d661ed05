/** Fetches again when the key changes: one request at a time, at an interval, newest key wins. */
import { useEffect, useRef, useState } from "react";
import { nextTick, onNextFrame } from "@/lib/frameClock";

export interface Latest<T> {
  data: T | null;
  /** Key that `data` belongs to. */
  key: string | null;
  /** Why the last request failed; null once one succeeded again. */
  error: Error | null;
}

/** How long after a failed request the next is made. */
const RETRY_MS = 1_000;

interface Options {
  /**
   * A request starts when the page's clock is at a multiple of this, or later if only then something is new;
   * 0 fetches at once. So all panels ask together: four requests in a row take less from the run that answers
   * them than four spread over the second.
   */
  intervalMs: number;
}

/**
 * Keeps the last answer while the next is on its way, so that a panel never blinks.
 *
 * Unlike a query that is cancelled when its key changes, a request always runs to its end: a key that changes
 * faster than the server answers still shows something new each time.
 */
export function useLatest<T>(
  key: string | null,
  load: (key: string, signal: AbortSignal) => Promise<T>,
  { intervalMs }: Options,
): Latest<T> {
  const [latest, setLatest] = useState<Latest<T>>({ data: null, key: null, error: null });
  const fetcher = useRef<Fetcher<T> | null>(null);
  const loader = useRef(load);
  loader.current = load;

  useEffect(() => {
    const created = new Fetcher<T>((wanted, signal) => loader.current(wanted, signal), setLatest);
    fetcher.current = created;
    return () => created.close();
  }, []);
  useEffect(() => fetcher.current?.setKey(key, intervalMs), [key, intervalMs]);
  return latest;
}

/** The clockwork of `useLatest`, without React. */
export class Fetcher<T> {
  private wanted: string | null = null;
  private latest: Latest<T> = { data: null, key: null, error: null };
  private intervalMs = 0;
  private startedAt = Number.NEGATIVE_INFINITY;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private cancel: (() => void) | null = null;
  private inFlight = false;
  private readonly closing = new AbortController();

  constructor(
    private readonly load: (key: string, signal: AbortSignal) => Promise<T>,
    private readonly show: (latest: Latest<T>) => void,
  ) {}

  setKey(key: string | null, intervalMs: number): void {
    this.wanted = key;
    this.intervalMs = intervalMs;
    if (key === null) this.publish({ data: null, key: null, error: null });
    else if (intervalMs === 0 && this.cancel !== null) this.publish(this.latest);
    this.schedule();
  }

  close(): void {
    this.closing.abort();
    if (this.timer !== null) clearTimeout(this.timer);
    this.cancel?.();
  }

  private schedule(): void {
    if (this.inFlight || this.closing.signal.aborted) return;
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    if (this.wanted === null || this.wanted === this.latest.key) return;
    const pause = this.latest.error === null ? this.intervalMs : Math.max(this.intervalMs, RETRY_MS);
    const wait = nextTick(this.startedAt, pause) - performance.now();
    if (wait <= 0) void this.start(this.wanted);
    else this.timer = setTimeout(() => this.schedule(), wait);
  }

  private async start(key: string): Promise<void> {
    this.inFlight = true;
    this.startedAt = performance.now();
    const before = this.latest;
    const latest = await this.load(key, this.closing.signal).then(
      (data): Latest<T> => ({ data, key, error: null }),
      // The last data stays; the same key is requested again later.
      (error: unknown): Latest<T> => ({
        ...before,
        error: error instanceof Error ? error : new Error(String(error)),
      }),
    );
    this.inFlight = false;
    if (this.closing.signal.aborted) return;
    if (this.wanted !== null) this.publish(latest);
    this.schedule();
  }

  /** While a run trains, newer data is drawn with the next frame of the page. */
  private publish(latest: Latest<T>): void {
    const canWait = this.intervalMs > 0 && latest.data !== null && this.latest.data !== null;
    this.latest = latest;
    this.cancel?.();
    this.cancel = canWait ? onNextFrame(() => this.draw()) : null;
    if (!canWait) this.draw();
  }

  private draw(): void {
    this.cancel = null;
    this.show(this.latest);
  }
}
