import { type RefObject, useLayoutEffect, useRef, useState } from "react";

export interface Size {
  width: number;
  height: number;
}

/** The inner size of an element, as it changes. */
export function useSize<T extends HTMLElement>(): [RefObject<T | null>, Size] {
  const container = useRef<T | null>(null);
  const [size, setSize] = useState<Size>({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const element = container.current;
    if (!element) return;
    const measure = () => {
      const { clientWidth: width, clientHeight: height } = element;
      setSize((old) => (old.width === width && old.height === height ? old : { width, height }));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [container, size];
}
