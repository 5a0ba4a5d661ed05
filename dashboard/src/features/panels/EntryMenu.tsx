/** The keys that hooks pushed this step; one is shown beside the list. */
import { formatCount } from "@/lib/format";
import { Panel, rowClass } from "@/ui";

interface EntryMenuProps {
  keys: readonly string[];
  selected: string | null;
  onSelect: (key: string) => void;
  stale: string | null;
}

export function EntryMenu({ keys, selected, onSelect, stale }: EntryMenuProps) {
  return (
    <Panel title="Step data" fact={formatCount(keys.length)} stale={stale} className="h-full">
      <div
        role="listbox"
        aria-label="Entries of the step data"
        tabIndex={0}
        aria-activedescendant={selected === null ? undefined : `key-${selected}`}
        onKeyDown={(event) => {
          const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
          if (by === undefined) return;
          event.preventDefault();
          const next = keys[(keys.indexOf(selected ?? "") + by + keys.length) % keys.length];
          if (next !== undefined) onSelect(next);
        }}
        className="min-h-0 flex-1 overflow-y-auto focus-visible:-outline-offset-2"
      >
        {keys.map((key) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the arrows on the list do the same
          <div
            key={key}
            id={`key-${key}`}
            role="option"
            tabIndex={-1}
            aria-selected={key === selected}
            onClick={() => onSelect(key)}
            className={`flex items-center px-3 font-mono ${rowClass({ selected: key === selected })}`}
          >
            <span className="truncate">{key}</span>
          </div>
        ))}
      </div>
    </Panel>
  );
}
