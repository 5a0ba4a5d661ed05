/** Which rows of a long list are drawn: all rows are equally high, so that their tops need no measuring. */
import { useCallback, useLayoutEffect, useMemo, useState } from "react";
import { flushSync } from "react-dom";

export const ROW_HEIGHT = 24;

export interface RowLayout {
  count: number;
  rowHeight?: number;
  /** Rows drawn before and after those that are seen. */
  overscan?: number;
  /** Heights of what sticks above and below the rows, inside the scroller. */
  head?: number;
  foot?: number;
}

/** First row that is seen, and one past the last; of a list without end. */
export function seenRows(
  scrollTop: number,
  height: number,
  { rowHeight = ROW_HEIGHT, head = 0 }: Pick<RowLayout, "rowHeight" | "head">,
): [first: number, stop: number] {
  const first = Math.max(0, Math.floor((scrollTop - head) / rowHeight));
  return [first, Math.max(first, Math.ceil((scrollTop + height - head) / rowHeight))];
}

/** Where to scroll so that a row is seen whole; where it is already, nothing moves. */
export function scrollTopFor(
  index: number,
  scrollTop: number,
  height: number,
  { rowHeight = ROW_HEIGHT, head = 0, foot = 0 }: Omit<RowLayout, "count">,
): number {
  const highest = index * rowHeight;
  const lowest = head + highest + rowHeight + foot - height;
  return Math.min(Math.max(scrollTop, lowest), highest);
}

/** `ref` goes to the element that scrolls, which needs a greatest height (`max-h-screen`); `rows` are those to draw, each `start` pixels below the first. */
export function useFixedRows(layout: RowLayout) {
  const { count, rowHeight = ROW_HEIGHT, overscan = 8, head = 0, foot = 0 } = layout;
  const [scroller, ref] = useState<HTMLElement | null>(null);
  const [[first, stop], setSeen] = useState<[number, number]>([0, 0]);
  useLayoutEffect(() => {
    if (scroller === null) return;
    const measure = () => {
      const next = seenRows(scroller.scrollTop, scroller.clientHeight, { rowHeight, head });
      setSeen((old) => (old[0] === next[0] && old[1] === next[1] ? old : next));
    };
    // At once: rows that come a frame later leave the list blank for that frame.
    const onScroll = () => flushSync(measure);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(scroller);
    scroller.addEventListener("scroll", onScroll, { passive: true });
    return () => {
      observer.disconnect();
      scroller.removeEventListener("scroll", onScroll);
    };
  }, [scroller, rowHeight, head]);
  const rows = useMemo(() => {
    const end = Math.min(count, stop + overscan);
    const start = Math.max(0, Math.min(first, end) - overscan);
    return Array.from({ length: end - start }, (_, offset) => ({
      index: start + offset,
      start: (start + offset) * rowHeight,
    }));
  }, [count, first, stop, overscan, rowHeight]);
  const scrollToRow = useCallback(
    (index: number) => {
      if (scroller === null) return;
      const { scrollTop, clientHeight } = scroller;
      const next = scrollTopFor(index, scrollTop, clientHeight, { rowHeight, head, foot });
      if (next !== scrollTop) scroller.scrollTop = next;
    },
    [scroller, rowHeight, head, foot],
  );
  /** How many rows Page Up and Page Down move by. */
  const pageRows = Math.max(1, stop - first - 2);
  return { ref, rows, totalHeight: count * rowHeight, scrollToRow, pageRows };
}
