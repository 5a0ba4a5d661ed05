/** Whether what a component draws can be seen: only that is captured and fetched. */
import { createContext, useContext, useEffect, useState } from "react";

/** True outside of any slot. */
export const InViewContext = createContext(true);

export const useInView = (): boolean => useContext(InViewContext);

/** Whether an element lies in the visible part of the page; false before the browser has said so. */
export function useIntersection(): [(element: Element | null) => void, boolean] {
  const [element, setElement] = useState<Element | null>(null);
  const [isInView, setInView] = useState(false);
  useEffect(() => {
    if (element === null) return;
    const observer = new IntersectionObserver((entries) =>
      setInView(entries.at(-1)?.isIntersecting ?? false),
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, [element]);
  return [setElement, isInView];
}
