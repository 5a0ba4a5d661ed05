import { type HTMLAttributes, type RefObject, useEffect, useLayoutEffect, useRef } from "react";
import { type Align, positionBeside, type Side } from "./popoverPosition";

/** The control inside the wrappers that only group it. */
export function controlOf(anchor: RefObject<HTMLElement | null>): HTMLElement | null {
  let element: Element | null = anchor.current;
  while (element?.classList.contains("contents")) element = element.firstElementChild;
  return element instanceof HTMLElement ? element : null;
}

interface LayerProps extends HTMLAttributes<HTMLDivElement> {
  /** Wraps the control that the layer belongs to. */
  anchor: RefObject<HTMLElement | null>;
  side?: Side;
  align?: Align;
  gap?: number;
  /** Called for Esc and for a press outside; left out where a layer closes by itself. */
  onDismiss?: () => void;
}

/** A floating layer. The browser's top layer shows it over everything, dialogs included, and nothing clips it. */
export function Layer({
  anchor,
  side = "bottom",
  align = "center",
  gap,
  onDismiss,
  className = "",
  ...rest
}: LayerProps) {
  const ref = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const layer = ref.current;
    const control = controlOf(anchor);
    if (!layer || !control) return;
    layer.showPopover();
    const reposition = () => {
      const screen = { width: window.innerWidth, height: window.innerHeight };
      const box = control.getBoundingClientRect();
      const { left, top } = positionBeside(box, layer.getBoundingClientRect(), screen, side, align, gap);
      layer.style.left = `${Math.round(left)}px`;
      layer.style.top = `${Math.round(top)}px`;
    };
    reposition();
    window.addEventListener("resize", reposition);
    window.addEventListener("scroll", reposition, true);
    return () => {
      window.removeEventListener("resize", reposition);
      window.removeEventListener("scroll", reposition, true);
    };
  }, [anchor, side, align, gap]);
  useDismiss(ref, anchor, onDismiss);
  return (
    <div
      ref={ref}
      popover="manual"
      className={`fixed m-0 rounded-layer bg-surface text-body text-text shadow-layer ${className}`}
      {...rest}
    />
  );
}

function useDismiss(
  layer: RefObject<HTMLElement | null>,
  anchor: RefObject<HTMLElement | null>,
  onDismiss: (() => void) | undefined,
): void {
  const latest = useRef(onDismiss);
  latest.current = onDismiss;
  useEffect(() => {
    const onPointerDown = (event: PointerEvent) => {
      const target = event.target as Node;
      if (!layer.current?.contains(target) && !anchor.current?.contains(target)) latest.current?.();
    };
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key !== "Escape" || latest.current === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      latest.current();
    };
    document.addEventListener("pointerdown", onPointerDown, true);
    document.addEventListener("keydown", onKeyDown, true);
    return () => {
      document.removeEventListener("pointerdown", onPointerDown, true);
      document.removeEventListener("keydown", onKeyDown, true);
    };
  }, [layer, anchor]);
}
