/** Everything that can be done, by name and key: the palette, the key list and the keyboard all read this one list. */
import { useEffect, useRef } from "react";
import { create } from "zustand";

export type ActionGroup = "Run" | "Breakpoints" | "Panels" | "View" | "Go to" | "Help";

export interface Action {
  id: string;
  title: string;
  group: ActionGroup;
  /** As the key list writes it: "Space", "→", "Shift →", "N", "G L", "Ctrl K". */
  keys?: string;
  /** Other words a person may search for. */
  words?: string;
  /** Why it cannot be done now; null or left out when it can. */
  disabledReason?: string | null;
  run: () => void;
}

interface Registry {
  actions: Action[];
}

export const useActions = create<Registry>()(() => ({ actions: [] }));

/** Where an action was first seen; lists keep that order although actions come and go with their state. */
const positions = new Map<string, number>();

/** One action per id, the latest, in a steady order. */
export function inOrder(actions: readonly Action[]): Action[] {
  const latest = [...new Map(actions.map((action) => [action.id, action])).values()];
  return latest.sort((a, b) => (positions.get(a.id) ?? 0) - (positions.get(b.id) ?? 0));
}

/** Adds actions; the answer removes them. A later action with the same id replaces the earlier one. */
export function registerActions(added: readonly Action[]): () => void {
  for (const { id } of added) if (!positions.has(id)) positions.set(id, positions.size);
  useActions.setState(({ actions }) => ({ actions: [...actions, ...added] }));
  return () =>
    useActions.setState(({ actions }) => ({ actions: actions.filter((one) => !added.includes(one)) }));
}

/** Offers an action while the component is mounted. `run` may change from render to render. */
export function useAction(action: Action): void {
  const latest = useRef(action.run);
  latest.current = action.run;
  const { id, title, group, keys, words, disabledReason } = action;
  useEffect(
    () => registerActions([{ id, title, group, keys, words, disabledReason, run: () => latest.current() }]),
    [id, title, group, keys, words, disabledReason],
  );
}
