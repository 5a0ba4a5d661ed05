/** Class names of tables, so that every list on the page has the same rows. */

export interface RowLook {
  selected?: boolean;
  stale?: boolean;
  excluded?: boolean;
  /** The breakpoint that stopped the run. */
  tinted?: boolean;
  /** What the stop came from. */
  bad?: boolean;
}

/** The look of a row of 24 px: rest, hover, selected with its accent edge, stale, excluded, tinted, bad. */
export function rowClass({ selected, stale, excluded, tinted, bad }: RowLook = {}): string {
  const ground = tinted
    ? "bg-warn-soft text-warn"
    : bad
      ? `bg-bad-soft ${selected ? "shadow-[inset_2px_0_0_var(--accent)]" : "shadow-[inset_2px_0_0_var(--bad-mark)]"}`
      : selected
        ? "bg-accent-soft shadow-[inset_2px_0_0_var(--accent)]"
        : "hover:bg-s2";
  return `h-6 ${ground} ${stale ? "stale" : ""} ${excluded ? "text-t3" : ""}`;
}
