import { cloneElement, type ReactElement, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { KeyCap } from "./KeyCap";
import { Layer } from "./Layer";
import type { Side } from "./popoverPosition";

interface TooltipProps {
  /** Without text there is no tooltip, only the child. */
  text: ReactNode;
  keys?: string;
  side?: Side;
  children: ReactElement<{ "aria-describedby"?: string }>;
}

const OPEN_AFTER_MS = 400;
const STAYS_WARM_MS = 300;

/** After one tooltip was read, the next opens at once. */
let lastClosedAt = Number.NEGATIVE_INFINITY;

/** A short note beside a control, never over it; it opens on hover and on keyboard focus. */
export function Tooltip({ text, keys, side = "bottom", children }: TooltipProps) {
  const anchor = useRef<HTMLSpanElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const [open, setOpen] = useState(false);
  const id = useId();
  const shown = open && Boolean(text);
  useEffect(() => () => clearTimeout(timer.current), []);
  const openLater = () => {
    const wait = performance.now() - lastClosedAt < STAYS_WARM_MS ? 0 : OPEN_AFTER_MS;
    timer.current = setTimeout(() => setOpen(true), wait);
  };
  const close = () => {
    clearTimeout(timer.current);
    if (open) lastClosedAt = performance.now();
    setOpen(false);
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the control inside is interactive, this only listens around it
    <span
      ref={anchor}
      className="contents"
      onPointerEnter={openLater}
      onPointerLeave={close}
      onPointerDown={close}
      onFocus={(event) => event.target.matches(":focus-visible") && setOpen(true)}
      onBlur={close}
      onKeyDown={(event) => event.key === "Escape" && close()}
    >
      {shown ? cloneElement(children, { "aria-describedby": id }) : children}
      {shown && (
        <Layer
          anchor={anchor}
          side={side}
          gap={6}
          id={id}
          role="tooltip"
          className="pointer-events-none max-w-72 px-2.5 py-1.5 text-t2"
        >
          <span className="flex items-center gap-2">
            <span>{text}</span>
            {keys && <KeyCap keys={keys} />}
          </span>
        </Layer>
      )}
    </span>
  );
}
