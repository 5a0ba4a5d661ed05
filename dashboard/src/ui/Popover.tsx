import { type ReactNode, useRef, useState } from "react";
import { Layer } from "./Layer";
import type { Align } from "./popoverPosition";

interface PopoverProps {
  /** Name of the button and of what it opens. */
  label: string;
  /** What stands on the button. */
  button: ReactNode;
  align?: Align;
  children: ReactNode;
  className?: string;
}

/** Facts under a button; for reading, so it does not trap focus. */
export function Popover({ label, button, align = "end", children, className = "" }: PopoverProps) {
  const anchor = useRef<HTMLSpanElement>(null);
  const [open, setOpen] = useState(false);
  return (
    <span ref={anchor} className="contents">
      <button
        type="button"
        aria-haspopup="dialog"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
        className={`rounded-control transition-colors hover:bg-s2 ${className}`}
      >
        <span className="sr-only">{label}: </span>
        {button}
      </button>
      {open && (
        <Layer
          anchor={anchor}
          align={align}
          role="dialog"
          aria-label={label}
          className="p-3"
          onDismiss={() => setOpen(false)}
        >
          {children}
        </Layer>
      )}
    </span>
  );
}
