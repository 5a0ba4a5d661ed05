import { type InputHTMLAttributes, type Ref, useEffect, useId, useRef, useState } from "react";
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
  /** Where the sentence stands: beside the field, below it, under it without taking room (from its left edge, or up to its right one), or where the caller writes it. */
  errorPosition?: "beside" | "below" | "under" | "under-end" | "elsewhere";
  disabledReason?: string | null;
  small?: boolean;
  ref?: Ref<HTMLInputElement>;
}

const WRAPPERS = {
  beside: "contents",
  below: "flex flex-col gap-1",
  under: "relative flex focus-within:z-10",
  "under-end": "relative flex focus-within:z-10",
  elsewhere: "contents",
};
const UNDER = "absolute top-full mt-px text-label leading-3 whitespace-nowrap text-bad";
const SENTENCES = {
  beside: "text-body text-bad",
  below: "text-body text-bad",
  under: `${UNDER} left-0`,
  "under-end": `${UNDER} right-0`,
  elsewhere: "",
};

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
  const { errorPosition = "beside", onKeyDown, ...attributes } = rest;
  const errorId = useId();
  const off = disabledReason != null;
  const edge = error ? "ring-2 ring-inset ring-bad-mark focus-visible:outline-offset-0" : "";
  const input = (
    <input
      {...attributes}
      aria-label={label}
      aria-invalid={error ? true : undefined}
      aria-describedby={error && errorPosition !== "elsewhere" ? errorId : attributes["aria-describedby"]}
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
    error && errorPosition !== "elsewhere" ? (
      <span id={errorId} role="alert" className={SENTENCES[errorPosition]}>
        {error}
      </span>
    ) : null;
  return (
    <span className={WRAPPERS[errorPosition]}>
      <Tooltip text={disabledReason}>{input}</Tooltip>
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
  /** Told what is wrong with what stands in the field, so that a button beside it can be off. */
  onProblem?: (problem: string | null) => void;
}

/** What is wrong with a text as a number: unreadable, or refused by `check`. Nothing typed is not wrong. */
export function numberProblem(
  text: string,
  whole: boolean,
  check?: (value: number) => string | null,
): string | null {
  const value = parseNumber(text, whole);
  if (value !== null) return check?.(value) ?? null;
  if (text.trim() === "") return null;
  return whole ? "Enter a whole number" : "Enter a number";
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
  onProblem,
  ...rest
}: NumberFieldProps) {
  const shown = value === null ? "" : whole ? formatCount(value) : String(value);
  // While it is typed into, the field shows what was typed; the value may change meanwhile.
  const [typed, setTyped] = useState<string | null>(null);
  const text = typed ?? shown;
  const parsed = parseNumber(text, whole);
  const own = numberProblem(text, whole, check);
  // The caller's sentence is about the last value that could be read, so what was typed since comes first.
  const problem = own ?? error ?? null;
  const report = useRef(onProblem);
  report.current = onProblem;
  useEffect(() => report.current?.(problem), [problem]);
  return (
    <Field
      inputMode={whole ? "numeric" : "decimal"}
      {...rest}
      value={text}
      error={problem}
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
