import type { KeyboardEvent } from "react";

const MOVES: Record<string, (index: number, count: number) => number> = {
  ArrowRight: (index, count) => (index + 1) % count,
  ArrowDown: (index, count) => (index + 1) % count,
  ArrowLeft: (index, count) => (index - 1 + count) % count,
  ArrowUp: (index, count) => (index - 1 + count) % count,
  Home: () => 0,
  End: (_, count) => count - 1,
};

/** Moves focus among the children of a group with the arrows; answers the new index, or null for other keys. */
export function roveFocus(event: KeyboardEvent<HTMLElement>, selector: string): number | null {
  const move = MOVES[event.key];
  if (move === undefined || event.ctrlKey || event.metaKey || event.altKey) return null;
  const items = [...event.currentTarget.querySelectorAll<HTMLElement>(selector)];
  const index = items.indexOf(document.activeElement as HTMLElement);
  if (index < 0) return null;
  event.preventDefault();
  event.stopPropagation();
  const next = move(index, items.length);
  items[next]?.focus();
  return next;
}
