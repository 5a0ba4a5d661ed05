/** Reads a value of a store that changes all the time, at an interval. */
import { useEffect, useRef, useState } from "react";
import { nextTick, onFrameAt } from "./frameClock";

interface Source<S> {
  getState: () => S;
  subscribe: (listener: () => void) => () => void;
}

/**
 * A part of a store as of the last tick, or later if it changed only then, so that it is not drawn again with every
 * message. With an interval of 0 it is always what the store holds.
 */
export function useThrottledStore<S, T>(source: Source<S>, select: (state: S) => T, intervalMs: number): T {
  const [taken, setTaken] = useState(() => select(source.getState()));
  const selecting = useRef(select);
  selecting.current = select;
  useEffect(() => {
    const throttled = new ThrottledValue(() => selecting.current(source.getState()), setTaken, intervalMs);
    const leave = source.subscribe(() => throttled.look());
    return () => {
      leave();
      throttled.close();
    };
  }, [source, intervalMs]);
  return intervalMs === 0 ? select(source.getState()) : taken;
}

/** The clockwork of `useThrottledStore`, without React. */
export class ThrottledValue<T> {
  private taken: T;
  private takenAt = performance.now();
  private cancel: (() => void) | null = null;

  constructor(
    private readonly read: () => T,
    private readonly show: (value: T) => void,
    private readonly intervalMs: number,
  ) {
    this.taken = read();
    show(this.taken);
  }

  /** Something changed, perhaps not what is followed. */
  look(): void {
    if (this.cancel !== null || Object.is(this.read(), this.taken)) return;
    const at = nextTick(this.takenAt, this.intervalMs);
    if (at <= performance.now()) this.take();
    else this.cancel = onFrameAt(at, () => this.take());
  }

  close(): void {
    this.cancel?.();
  }

  private take(): void {
    this.cancel = null;
    this.takenAt = performance.now();
    this.taken = this.read();
    this.show(this.taken);
  }
}
