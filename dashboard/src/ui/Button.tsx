import type { ButtonHTMLAttributes, ReactNode, Ref } from "react";
import { Icon, type IconName } from "./Icon";
import { KeyCap } from "./KeyCap";
import { Tooltip } from "./Tooltip";

export type ButtonLook = "filled" | "quiet" | "ghost" | "danger" | "danger-filled";

export interface ButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "disabled"> {
  look?: ButtonLook;
  /** 28 px, or 24 px inside panels and messages. */
  small?: boolean;
  icon?: IconName;
  iconFilled?: boolean;
  keys?: string;
  /** While the server has not answered: a spinner and this verb ("Pausing…"); clicks do nothing. */
  busy?: string | null;
  /** Why it cannot be used now; it stays focusable so that the reason can be read. */
  disabledReason?: string | null;
  tooltip?: ReactNode;
  ref?: Ref<HTMLButtonElement>;
}

const LOOKS: Record<ButtonLook, string> = {
  filled: "bg-accent text-on-accent hover:bg-accent-hover active:brightness-90",
  quiet: "bg-s2 text-text hover:bg-s3 active:brightness-95",
  ghost: "text-text hover:bg-s2 active:bg-s3",
  danger: "text-bad hover:bg-bad-soft active:brightness-95",
  "danger-filled": "bg-bad-mark text-on-bad hover:brightness-95 active:brightness-90",
};

/** A button with a verb on it. */
export function Button(props: ButtonProps) {
  const { look = "quiet", small, icon, iconFilled, keys, busy, disabledReason, tooltip, ...rest } = props;
  const { children, className = "", onClick, ...attributes } = rest;
  const off = disabledReason != null;
  const idle = busy == null;
  const size = small ? "h-6 px-2" : "h-7 px-2";
  // A disabled danger button keeps no red: grey says that it does nothing.
  const waiting = idle || look !== "quiet" ? "" : "text-t2!";
  const state = off ? `${look === "quiet" || look === "filled" ? "bg-s2" : ""} text-dis` : LOOKS[look];
  return (
    <Tooltip text={disabledReason ?? tooltip} keys={off ? undefined : tooltip ? keys : undefined}>
      <button
        type="button"
        {...attributes}
        aria-disabled={off || !idle || undefined}
        aria-busy={!idle || undefined}
        onClick={off || !idle ? (event) => event.preventDefault() : onClick}
        className={`relative inline-flex shrink-0 items-center rounded-control font-medium whitespace-nowrap transition-colors ${size} ${state} ${waiting} ${className}`}
      >
        {!idle && (
          <span className="absolute inset-0 flex items-center justify-center gap-1.5">
            <Icon name="spinner" size={14} className="animate-turn" />
            {busy}
          </span>
        )}
        {/* What it says at rest keeps the width while it is busy. */}
        <span className={`inline-flex items-center gap-1.5 ${idle ? "" : "invisible"}`}>
          {icon && <Icon name={icon} size={14} filled={iconFilled} />}
          {children}
          {keys && <KeyCap keys={keys} onFilled={look === "filled" && !off} off={off} />}
        </span>
      </button>
    </Tooltip>
  );
}

export interface IconButtonProps extends Omit<ButtonProps, "children" | "keys" | "look" | "icon"> {
  icon: IconName;
  /** Its name for the tooltip and for screen readers. */
  label: string;
  keys?: string;
  pressed?: boolean;
}

/** A button that is only an icon, 24 px square. */
export function IconButton(props: IconButtonProps) {
  const { icon, label, keys, pressed, disabledReason, className = "", onClick, iconFilled, ...rest } = props;
  const { small: _small, busy: _busy, tooltip: _tooltip, ...attributes } = rest;
  const off = disabledReason != null;
  const state = off
    ? "text-dis"
    : pressed
      ? "bg-s3 text-text"
      : "text-t2 hover:bg-s2 hover:text-text active:bg-s3";
  return (
    <Tooltip text={disabledReason ?? label} keys={off ? undefined : keys}>
      <button
        type="button"
        {...attributes}
        aria-label={label}
        aria-pressed={pressed}
        aria-disabled={off || undefined}
        onClick={off ? (event) => event.preventDefault() : onClick}
        className={`inline-flex size-6 shrink-0 items-center justify-center rounded-control transition-colors ${state} ${className}`}
      >
        <Icon name={icon} size={15} filled={iconFilled} />
      </button>
    </Tooltip>
  );
}
