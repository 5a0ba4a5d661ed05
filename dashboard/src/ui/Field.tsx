import { type InputHTMLAttributes, type Ref, useId, useState } from "react";
import { formatCount } from "@/lib/format";
import { Tooltip } from "./Tooltip";

export interface FieldProps
  extends Omit<InputHTMLAttributes<HTMLInputElement>, "disabled" | "onChange" | "value"> {
  /** For screen readers, where no visible label stands beside it. */
  label: string;
  value: string;
  onChange: (value: string) => void;
  /** Enter. */
  onApply?: (value: string) => void;
  /** Esc. */
  onRestore?: () => void;
  error?: string | null;
  /** Where the sentence stands: beside the field, below it, in its tooltip only, or somewhere the caller writes it. */
  errorPlace?: "beside" | "below" | "tooltip" | "elsewhere";
  disabledReason?: string | null;
  small?: boolean;
  ref?: Ref<HTMLInputElement>;
}

/** A line of text. Enter applies, Esc restores. */
export function Field(props: FieldProps) {
  const {
    label,
    value,
    onChange,
    onApply,
    onRestore,
    error,
    disabledReason,
    small,
    className = "",
    ...rest
  } = props;
  const { errorPlace = "beside", onKeyDown, ...attributes } = rest;
  const errorId = useId();
  const off = disabledReason != null;
  const edge = error ? "ring-2 ring-inset ring-bad-mark" : "";
  const input = (
    <input
      {...attributes}
      aria-label={label}
      aria-invalid={error ? true : undefined}
      aria-describedby={error && errorPlace !== "elsewhere" ? errorId : attributes["aria-describedby"]}
      aria-disabled={off || undefined}
      readOnly={off}
      value={value}
      spellCheck={false}
      autoComplete="off"
      onChange={(event) => onChange(event.target.value)}
      onKeyDown={(event) => {
        if (event.key === "Enter" && !off) onApply?.(value);
        else if (event.key === "Escape" && onRestore) {
          event.stopPropagation();
          onRestore();
        }
        onKeyDown?.(event);
      }}
      className={`min-w-0 rounded-control bg-s2 font-medium placeholder:font-normal placeholder:text-t3 ${small ? "h-6 px-2" : "h-7 px-2.5"} ${off ? "text-dis" : "text-text"} ${edge} ${className}`}
    />
  );
  const sentence =
    error && errorPlace !== "elsewhere" ? (
      <span id={errorId} role="alert" className={errorPlace === "tooltip" ? "sr-only" : "text-body text-bad"}>
        {error}
      </span>
    ) : null;
  return (
    <span className={errorPlace === "below" ? "flex flex-col gap-1" : "contents"}>
      <Tooltip text={disabledReason ?? (errorPlace === "tooltip" ? error : null)}>{input}</Tooltip>
      {sentence}
    </span>
  );
}

export interface NumberFieldProps extends Omit<FieldProps, "value" | "onChange" | "onApply" | "onRestore"> {
  value: number | null;
  onChange: (value: number | null) => void;
  onApply?: (value: number) => void;
  /** Whole numbers are written with thousands separators. */
  whole?: boolean;
  /** A sentence when the number cannot be used, else null. */
  check?: (value: number) => string | null;
}

/** Reads what a person types as a number: separators, true minus and spaces are fine. */
export function parseNumber(text: string, whole: boolean): number | null {
  const plain = text.replaceAll(/[,\s_]/g, "").replace("\u2212", "-");
  if (plain === "") return null;
  const value = Number(plain);
  if (Number.isNaN(value) || (whole && !Number.isInteger(value))) return null;
  return value;
}

/** A number. What is typed counts when it can be read; leaving the field with nonsense restores the last value. */
export function NumberField({
  value,
  onChange,
  onApply,
  whole = true,
  check,
  error,
  ...rest
}: NumberFieldProps) {
  const shown = value === null ? "" : whole ? formatCount(value) : String(value);
  // While it is typed into, the field shows what was typed; the value may change meanwhile.
  const [typed, setTyped] = useState<string | null>(null);
  const text = typed ?? shown;
  const parsed = parseNumber(text, whole);
  const unreadable = text.trim() !== "" && parsed === null;
  const own = unreadable
    ? whole
      ? "Type a whole number"
      : "Type a number"
    : parsed === null
      ? null
      : (check?.(parsed) ?? null);
  return (
    <Field
      inputMode={whole ? "numeric" : "decimal"}
      {...rest}
      value={text}
      error={error ?? own}
      onChange={(now) => {
        setTyped(now);
        const next = parseNumber(now, whole);
        if (next !== null) onChange(next);
      }}
      onApply={() => {
        if (parsed === null || own !== null) return;
        setTyped(null);
        onApply?.(parsed);
      }}
      onRestore={() => setTyped(null)}
      onBlur={() => setTyped(null)}
    />
  );
}
