import type { ReactNode } from "react";
import { roveFocus } from "./roving";

export interface Choice<T extends string> {
  value: T;
  label: ReactNode;
  disabledReason?: string;
}

interface SegmentedProps<T extends string> {
  label: string;
  value: T;
  choices: readonly Choice<T>[];
  onChange: (value: T) => void;
}

/** A choice of a few, all visible: Loader order | By loss. */
export function Segmented<T extends string>({ label, value, choices, onChange }: SegmentedProps<T>) {
  return (
    <div
      role="radiogroup"
      aria-label={label}
      className="inline-flex h-6 shrink-0 items-center rounded-control bg-s2 p-px"
      onKeyDown={(event) => {
        const index = roveFocus(event, "[role=radio]");
        const choice = index === null ? undefined : choices[index];
        if (choice && !choice.disabledReason) onChange(choice.value);
      }}
    >
      {choices.map((choice) => {
        const on = choice.value === value;
        const look = on
          ? "bg-raised text-text font-medium ring-1 ring-raised-ring"
          : choice.disabledReason
            ? "text-dis"
            : "text-t2 hover:text-text";
        return (
          // biome-ignore lint/a11y/useSemanticElements: a radio input cannot hold an icon or be styled by its own state
          <button
            key={choice.value}
            type="button"
            role="radio"
            aria-checked={on}
            aria-disabled={choice.disabledReason ? true : undefined}
            title={choice.disabledReason}
            tabIndex={on ? 0 : -1}
            onClick={() => !choice.disabledReason && onChange(choice.value)}
            className={`h-[22px] rounded-[5px] px-2 text-body transition-colors ${look}`}
          >
            {choice.label}
          </button>
        );
      })}
    </div>
  );
}
