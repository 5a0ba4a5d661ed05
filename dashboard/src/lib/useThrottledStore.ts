/** Takes over a value that changes all the time, on the beat. */
import { useEffect, useRef, useState } from "react";
import { nextBeat, withPictureAt } from "./frameClock";

interface Source<S> {
  getState: () => S;
  subscribe: (listener: () => void) => () => void;
}

/**
 * A part of a store as of the last beat, or later if it changed only then: so what shows it is not drawn again with
 * every message. With a beat of 0 it is always what the store holds.
 */
export function useOnBeat<S, T>(source: Source<S>, select: (state: S) => T, beatMs: number): T {
  const [taken, setTaken] = useState(() => select(source.getState()));
  const selecting = useRef(select);
  selecting.current = select;
  useEffect(() => {
    const follower = new Follower(() => selecting.current(source.getState()), setTaken, beatMs);
    const leave = source.subscribe(() => follower.look());
    return () => {
      leave();
      follower.close();
    };
  }, [source, beatMs]);
  return beatMs === 0 ? select(source.getState()) : taken;
}

/** The clockwork of `useOnBeat`, without React. */
export class Follower<T> {
  private taken: T;
  private takenAt = performance.now();
  private cancel: (() => void) | null = null;

  constructor(
    private readonly read: () => T,
    private readonly show: (value: T) => void,
    private readonly beatMs: number,
  ) {
    this.taken = read();
    show(this.taken);
  }

  /** Something changed, perhaps not what is followed. */
  look(): void {
    if (this.cancel !== null || Object.is(this.read(), this.taken)) return;
    const at = nextBeat(this.takenAt, this.beatMs);
    if (at <= performance.now()) this.take();
    else this.cancel = withPictureAt(at, () => this.take());
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
