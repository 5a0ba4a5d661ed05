/** A further part of a sample, such as its mask: requested when it is shown. */
import { useEffect, useState } from "react";

export interface Part<T> {
  data: T | null;
  error: string | null;
}

export function usePart<T>(load: ((signal: AbortSignal) => Promise<T>) | null, key: string): Part<T> {
  const [part, setPart] = useState<Part<T>>({ data: null, error: null });
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key names what is loaded
  useEffect(() => {
    setPart({ data: null, error: null });
    if (load === null) return;
    const closing = new AbortController();
    load(closing.signal).then(
      (data) => setPart({ data, error: null }),
      (problem: unknown) => {
        if (!closing.signal.aborted)
          setPart({ data: null, error: String((problem as Error).message ?? problem) });
      },
    );
    return () => closing.abort();
  }, [key]);
  return part;
}
