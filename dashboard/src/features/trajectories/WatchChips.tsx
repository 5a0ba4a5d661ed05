/** One removable chip a watch, and a field to add others by typing. */
import { useRef, useState } from "react";
import { Button, Field, Icon } from "@/ui";
import { readIds } from "./tracks";

interface WatchChipsProps {
  watched: readonly number[];
  colourOf: (id: number) => string;
  onAdd: (ids: readonly number[]) => void;
  onRemove: (id: number) => void;
  disabledReason: string | null;
}

export function WatchChips({ watched, colourOf, onAdd, onRemove, disabledReason }: WatchChipsProps) {
  const [typing, setTyping] = useState<string | null>(null);
  const opener = useRef<HTMLButtonElement>(null);
  const close = () => {
    setTyping(null);
    opener.current?.focus();
  };
  const apply = (text: string) => {
    const ids = readIds(text);
    if (ids === null) return;
    onAdd(ids);
    close();
  };
  return (
    <span className="flex min-w-0 items-center gap-1.5 overflow-x-auto">
      {watched.map((id) => (
        <span key={id} className="flex h-6 shrink-0 items-center gap-1.5 rounded-chip bg-s2 pl-1.5 text-text">
          <span className="h-0.5 w-3 rounded-full" style={{ background: colourOf(id) }} />
          <span className="font-medium">{id}</span>
          <button
            type="button"
            aria-label={`Stop watching ${id}`}
            aria-disabled={disabledReason !== null || undefined}
            title={disabledReason ?? `Stop watching ${id} (keeps its line)`}
            onClick={() => disabledReason === null && onRemove(id)}
            className="flex size-6 items-center justify-center rounded-chip text-t3 hover:text-text"
          >
            <Icon name="close" size={12} />
          </button>
        </span>
      ))}
      {typing === null ? (
        <Button
          ref={opener}
          small
          look="ghost"
          icon="plus"
          className={`shrink-0 ${disabledReason === null ? "text-t2!" : ""}`}
          disabledReason={disabledReason}
          tooltip="Watch rows by their numbers, or press W on a selected row"
          onClick={() => setTyping("")}
        >
          Watch
        </Button>
      ) : (
        <Field
          small
          autoFocus
          label="Rows to watch, for example 0, 15, 31"
          placeholder="0, 15, 31"
          value={typing}
          error={typing.trim() !== "" && readIds(typing) === null ? "Enter whole numbers" : null}
          errorPosition="elsewhere"
          onChange={setTyping}
          onApply={apply}
          onRestore={close}
          onBlur={() => setTyping(null)}
          className="w-28"
        />
      )}
    </span>
  );
}
