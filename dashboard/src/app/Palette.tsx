/** Ctrl K: search and every command, with the key that does the same. */
import { type KeyboardEvent, type ReactNode, useEffect, useId, useMemo, useRef, useState } from "react";
import { useRuns } from "@/api/runs";
import { type ActionGroup, inOrder, useActions } from "@/lib/actions";
import { Dialog, Icon, KeyCap, StateChip } from "@/ui";
import { useGo } from "./navigation";
import { type Group, nextEnabled, rankGroups } from "./paletteRanking";

const GROUPS: readonly ActionGroup[] = ["Run", "Breakpoints", "Panels", "View", "Go to", "Help"];

interface Entry {
  id: string;
  title: string;
  words?: string;
  disabledReason?: string | null;
  content: ReactNode;
  choose: () => void;
}

export default function Palette({ onClose }: { onClose: () => void }) {
  const [query, setQuery] = useState("");
  const all = useEntries(onClose);
  const groups = useMemo(() => rankGroups(query, all), [query, all]);
  const entries = useMemo(() => groups.flatMap((group) => group.entries), [groups]);
  const isEnabled = entries.map(({ disabledReason }) => disabledReason == null);
  const [activeId, setActiveId] = useState<string | null>(null);
  const kept = entries.findIndex(({ id }, index) => id === activeId && isEnabled[index]);
  const active = kept >= 0 ? kept : nextEnabled(isEnabled, -1, 1);
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another active entry is brought into sight
  useEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [entries[active]?.id]);

  const onKeyDown = (event: KeyboardEvent) => {
    const moves: Record<string, () => number> = {
      ArrowDown: () => nextEnabled(isEnabled, active, 1),
      ArrowUp: () => nextEnabled(isEnabled, active, -1),
      Home: () => nextEnabled(isEnabled, -1, 1),
      End: () => nextEnabled(isEnabled, 0, -1),
    };
    if (event.key === "Enter") entries[active]?.choose();
    else if (event.key in moves) setActiveId(entries[moves[event.key]?.() ?? -1]?.id ?? null);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Search or command" titleHidden onClose={onClose} className="w-[560px]">
      <div className="flex items-center gap-2 border-b border-line px-4">
        <Icon name="search" className="text-t3" />
        <input
          data-autofocus
          role="combobox"
          aria-label="Search or command"
          aria-expanded
          aria-controls={`${id}-list`}
          aria-autocomplete="list"
          aria-activedescendant={active >= 0 ? `${id}-${entries[active]?.id}` : undefined}
          placeholder="Search or command"
          autoComplete="off"
          spellCheck={false}
          value={query}
          onChange={(event) => {
            setQuery(event.target.value);
            setActiveId(null);
          }}
          onKeyDown={onKeyDown}
          className="h-11 flex-1 bg-transparent text-bar outline-none placeholder:text-t3"
        />
        <KeyCap keys="Esc" />
      </div>
      <div
        ref={list}
        id={`${id}-list`}
        role="listbox"
        aria-label="Commands and runs"
        tabIndex={-1}
        className="max-h-90 overflow-y-auto p-2"
      >
        {entries.length === 0 && <p className="px-2 py-3 text-t2">No command or run matches.</p>}
        {groups.map(({ heading, entries: own }) => (
          // biome-ignore lint/a11y/useSemanticElements: a group of options is no fieldset
          <div key={heading} role="group" aria-label={heading}>
            <p aria-hidden="true" className="px-2 py-1 text-label text-t3">
              {heading}
            </p>
            {own.map((entry) => {
              const isActive = entry === entries[active];
              const isDisabled = entry.disabledReason != null;
              return (
                // biome-ignore lint/a11y/useKeyWithClickEvents: the keys of the field choose
                <div
                  key={entry.id}
                  id={`${id}-${entry.id}`}
                  role="option"
                  tabIndex={-1}
                  aria-selected={isActive}
                  aria-disabled={isDisabled || undefined}
                  onPointerMove={() => !isDisabled && setActiveId(entry.id)}
                  onClick={() => !isDisabled && entry.choose()}
                  className={`flex h-8 items-center gap-2 rounded-control px-2 ${isActive ? "bg-accent-soft" : ""} ${isDisabled ? "text-dis" : ""}`}
                >
                  {entry.content}
                </div>
              );
            })}
          </div>
        ))}
      </div>
    </Dialog>
  );
}

/** Of a long list the newest; the Runs page has all. */
const MAX_RUNS = 50;

/** Every action by its group, then the newest runs. */
function useEntries(onClose: () => void): Group<Entry>[] {
  const registered = useActions((registry) => registry.actions);
  const listed = useRuns();
  const go = useGo();
  return useMemo(() => {
    const actions = inOrder(registered).filter(({ id }) => id !== "palette");
    const runs = (listed ?? []).slice(0, MAX_RUNS).map(
      (run): Entry => ({
        id: run.id,
        title: run.name,
        words: run.id,
        content: (
          <>
            <span className="flex-1 truncate font-mono">{run.name}</span>
            <StateChip state={run.state} />
          </>
        ),
        choose: () => {
          onClose();
          go("/live", { run: run.id });
        },
      }),
    );
    const commands = GROUPS.map((heading) => ({
      heading,
      entries: actions
        .filter(({ group }) => group === heading)
        .map(
          ({ id, title, words, keys, disabledReason, run }): Entry => ({
            id,
            title,
            words,
            disabledReason,
            content: (
              <>
                <span className="flex-1">{title}</span>
                {disabledReason != null && <span className="text-t3">{disabledReason}</span>}
                {keys && <KeyCap keys={keys} />}
              </>
            ),
            choose: () => {
              onClose();
              // The dialog gives focus back first, then the action may move it.
              setTimeout(run);
            },
          }),
        ),
    }));
    return [...commands, { heading: "Runs", entries: runs }];
  }, [registered, listed, go, onClose]);
}
