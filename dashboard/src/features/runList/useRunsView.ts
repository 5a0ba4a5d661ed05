/** The view of the list, all of it in the address: filter, order, groups, columns, chosen runs. */
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { RunTable } from "@/api/runList";
import type { RunRow } from "@/api/types";
import { ColorAssignments } from "@/charts/colors/seriesColors";
import { metricsOf } from "@/lib/metricNames";
import { showToast } from "@/lib/toasts";
import { useUrlList, useUrlState } from "@/lib/urlState";
import { type Columns, columnsOf } from "./columns";
import { type Condition, filterRuns, readCondition, writeCondition } from "./filter";
import { itemsOf, readSort, type Sorting, type TableItem, writeSort } from "./grouping";
import { fitting } from "./tableColumns";

/** Curves beyond this many tell nothing apart. */
export const MAX_SHOWN = 50;
/** Runs whose curves are shown until the user selects some. */
const SHOWN_AT_FIRST = 6;
const NOBODY = "none";
const RENEW_MS = 1_000;

/** A run keeps its colour for as long as it is drawn, also on the way to another page and back. */
const colours = new ColorAssignments();

export interface RunsView {
  conditions: readonly Condition[];
  text: string;
  setFilter: (conditions: readonly Condition[], text: string) => void;
  sorting: Sorting;
  setSorting: (sorting: Sorting) => void;
  group: string;
  setGroup: (key: string) => void;
  fold: (label: string) => void;
  columns: Columns;
  setColumns: (keys: readonly string[] | null) => void;
  /** Runs that match, in no order. */
  matching: readonly RunRow[];
  items: readonly TableItem[];
  setHovered: (hovered: boolean) => void;
  /** Drawn runs in the order they were chosen, with the slots of their colours. */
  chosen: readonly RunRow[];
  shown: ReadonlyMap<string, number>;
  toggleShown: (id: string) => void;
  showAll: (ids: readonly string[]) => void;
}

export function useRunsView({ rows, columns: named }: RunTable): RunsView {
  const [where, setWhere] = useUrlList("where");
  const [text, setText] = useUrlState("filter", "");
  const [sort, setSort] = useUrlState("sort", "-started_at");
  const [group, setGroup] = useUrlState("group", "");
  const [closed, setClosed] = useUrlList("closed");
  const [columnText, setColumnText] = useUrlState("columns", "");
  const runs = useMemo(() => [...rows.values()], [rows]);
  const conditions = useMemo(() => where.flatMap((one) => readCondition(one) ?? []), [where]);
  const columns = useMemo(() => {
    const chosen = columnText === "" ? null : columnText.split(",").filter(Boolean);
    const columns = columnsOf(runs, named, chosen);
    return chosen === null ? { ...columns, shown: fitting(rows, columns.shown) } : columns;
  }, [rows, runs, named, columnText]);
  const matching = useMemo(() => filterRuns(runs, conditions, text), [runs, conditions, text]);
  const [hovered, setHovered] = useState(false);
  const items = useHeldItems(matching, sort, group, closed, hovered);
  return {
    conditions,
    text,
    setFilter: (next, words) => {
      setWhere(next.map(writeCondition));
      setText(words);
    },
    sorting: readSort(sort),
    setSorting: (sorting) => setSort(writeSort(sorting)),
    group,
    setGroup,
    fold: (label) =>
      setClosed(closed.includes(label) ? closed.filter((one) => one !== label) : [...closed, label]),
    columns,
    setColumns: (keys) => setColumnText(keys === null ? "" : `,${keys.join(",")}`),
    matching,
    items,
    setHovered,
    ...useShown(rows),
  };
}

/** The lines of the table; new values alone move no row under the pointer, and none more than once a second. */
function useHeldItems(
  matching: readonly RunRow[],
  sort: string,
  group: string,
  closed: readonly string[],
  hovered: boolean,
): TableItem[] {
  const [renewal, setRenewal] = useState(0);
  const ids = useMemo(() => matching.map(({ id }) => id).join(" "), [matching]);
  useEffect(() => {
    if (hovered) return;
    const timer = setInterval(() => setRenewal((count) => count + 1), RENEW_MS);
    return () => clearInterval(timer);
  }, [hovered]);
  const latest = useRef(matching);
  latest.current = matching;
  // biome-ignore lint/correctness/useExhaustiveDependencies: which runs there are counts at once, their values only now and then
  return useMemo(
    () => itemsOf(latest.current, readSort(sort), group, new Set(closed)),
    [ids, sort, group, closed, renewal],
  );
}

type Shown = Pick<RunsView, "chosen" | "shown" | "toggleShown" | "showAll">;

/** Which runs are drawn: those of the address, or the newest while it names none. */
function useShown(rows: ReadonlyMap<string, RunRow>): Shown {
  const [named, setNamed] = useUrlState("show", "");
  const ids = useMemo(() => {
    if (named !== "") return named.split(",").filter((id) => rows.has(id));
    const measured = [...rows.values()].filter((run) => metricsOf(run).length > 0);
    return measured.slice(0, SHOWN_AT_FIRST).map(({ id }) => id);
  }, [named, rows]);
  const key = ids.join(",");
  const shown = useMemo(() => {
    const all = key === "" ? [] : key.split(",");
    colours.keep(all);
    return new Map(all.map((id) => [id, colours.slotOf(id)]));
  }, [key]);
  const chosen = useMemo(() => ids.flatMap((id) => rows.get(id) ?? []), [ids, rows]);
  const showAll = useCallback(
    (all: readonly string[]) => {
      if (all.length > MAX_SHOWN)
        showToast({ kind: "refused", title: `${MAX_SHOWN} curves at most.`, text: "Hide one first." });
      const kept = all.slice(0, MAX_SHOWN);
      setNamed(kept.length === 0 ? NOBODY : kept.join(","));
    },
    [setNamed],
  );
  const toggleShown = useCallback(
    (id: string) => {
      const now = key === "" ? [] : key.split(",");
      showAll(now.includes(id) ? now.filter((one) => one !== id) : [...now, id]);
    },
    [key, showAll],
  );
  return { chosen, shown, toggleShown, showAll };
}
