/** The lines of a table: rows, and groups above their rows; which one a key leads to. */

export interface RowGroup {
  key: string;
  /** Rows of the group, as indices into the columns. */
  rows: readonly number[];
  /** Whether its rows are folded away. */
  closed?: boolean;
}

export type TableItem<Group extends RowGroup = RowGroup> =
  | { kind: "group"; group: Group }
  | { kind: "row"; row: number };

/** The rows in their order, or under their groups with the same order within each. */
export function tableItems<Group extends RowGroup>(
  order: readonly number[],
  groups: readonly Group[] | undefined,
): TableItem<Group>[] {
  if (groups === undefined) return order.map((row) => ({ kind: "row", row }));
  const rank = new Map(order.map((row, index) => [row, index]));
  return groups.flatMap((group): TableItem<Group>[] => {
    const shown = group.closed ? [] : group.rows.filter((row) => rank.has(row));
    const sorted = shown.sort((a, b) => (rank.get(a) as number) - (rank.get(b) as number));
    return [{ kind: "group", group }, ...sorted.map((row) => ({ kind: "row" as const, row }))];
  });
}

/** Index of the item that a key leads to; null for other keys. Groups are passed over. */
export function itemAfter(
  items: readonly { kind: "group" | "row" }[],
  at: number,
  key: string,
  page: number,
): number | null {
  const moves: Record<string, number> = {
    ArrowDown: at + 1,
    ArrowUp: at < 0 ? 0 : at - 1,
    PageDown: at + page,
    PageUp: at - page,
    Home: 0,
    End: items.length - 1,
  };
  const wanted = moves[key];
  if (wanted === undefined) return null;
  const from = Math.min(items.length - 1, Math.max(0, wanted));
  const ahead = nextRow(items, from, 1);
  const behind = nextRow(items, from, -1);
  const isBackward = wanted < at || key === "End";
  return isBackward ? (behind ?? ahead) : (ahead ?? behind);
}

function nextRow(items: readonly { kind: "group" | "row" }[], start: number, by: 1 | -1): number | null {
  for (let index = start; index >= 0 && index < items.length; index += by)
    if (items[index]?.kind === "row") return index;
  return null;
}
