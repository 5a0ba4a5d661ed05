/** The filter of the list: conditions as chips, then words. */
import { type KeyboardEvent, useState } from "react";
import type { RunRow } from "@/api/types";
import { Icon } from "@/ui";
import { type Condition, chipKey, isKnownKey, readFilter } from "./filter";

interface FilterBarProps {
  runs: readonly RunRow[];
  conditions: readonly Condition[];
  text: string;
  onChange: (conditions: readonly Condition[], text: string) => void;
}

export function FilterBar({ runs, conditions, text, onChange }: FilterBarProps) {
  // While it is typed the last word may still become a condition; the list follows the words at once.
  const [typed, setTyped] = useState<string | null>(null);
  const take = (now: string) => {
    const { conditions: added, words } = readFilter(now);
    setTyped(null);
    onChange([...conditions, ...added], words);
  };
  const type = (now: string) => {
    if (now.endsWith(" ") && readFilter(now).conditions.length > 0) return take(now);
    setTyped(now);
    onChange(conditions, readFilter(now).words);
  };
  const onKeyDown = (event: KeyboardEvent<HTMLInputElement>) => {
    if (event.key === "Enter") take(event.currentTarget.value);
    else if (event.key === "Escape") {
      event.stopPropagation();
      setTyped(null);
      onChange(conditions, "");
      event.currentTarget.blur();
    } else if (event.key === "Backspace" && event.currentTarget.value === "" && conditions.length > 0) {
      onChange(conditions.slice(0, -1), "");
    }
  };
  return (
    <div className="flex min-h-7 w-108 max-w-full flex-wrap items-center gap-1 rounded-control bg-s2 py-0.5 pr-1 pl-2.5 has-[input:focus-visible]:outline-2 has-[input:focus-visible]:outline-offset-2 has-[input:focus-visible]:outline-accent">
      <Icon name="filter" size={14} className="mr-1 text-t3" />
      {conditions.map((condition, index) => (
        <ConditionChip
          // biome-ignore lint/suspicious/noArrayIndexKey: the same condition may be there twice
          key={index}
          condition={condition}
          known={isKnownKey(runs, condition.key)}
          onRemove={() => onChange(conditions.toSpliced(index, 1), text)}
        />
      ))}
      <input
        aria-label="Filter runs"
        data-filter=""
        placeholder={conditions.length > 0 ? "Filter" : "Filter by name, state or setting: lr=0.001"}
        value={typed ?? text}
        spellCheck={false}
        autoComplete="off"
        onChange={(event) => type(event.target.value)}
        onBlur={(event) => take(event.target.value)}
        onKeyDown={onKeyDown}
        className="h-6 min-w-24 flex-1 bg-transparent font-medium outline-none! placeholder:font-normal placeholder:text-t3"
      />
    </div>
  );
}

interface ConditionChipProps {
  condition: Condition;
  known: boolean;
  onRemove: () => void;
}

function ConditionChip({ condition: { key, operator, value }, known, onRemove }: ConditionChipProps) {
  const words = `${chipKey(key)} ${operator === "=" ? "" : `${operator} `}${value}`;
  return (
    <span
      title={known ? undefined : "No run in the list has this value"}
      className={`flex h-5 items-center gap-1 rounded-chip pl-1.5 ${known ? "bg-s3" : "bg-warn-soft text-warn"}`}
    >
      <span className={known ? "text-t2" : ""}>
        {chipKey(key)}
        {operator === "=" ? "" : ` ${operator}`}
      </span>
      <span className="max-w-40 truncate font-medium">{value}</span>
      <button
        type="button"
        aria-label={`Remove filter ${words}`}
        onClick={onRemove}
        className="flex h-5 w-5 items-center justify-center rounded-chip text-t2 hover:text-text"
      >
        <Icon name="close" size={12} />
      </button>
    </span>
  );
}
