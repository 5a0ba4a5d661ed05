import type { PanelState } from "./Panel";

interface Query<T> {
  /** None before the first answer. */
  data: T | null | undefined;
  error: Error | string | null;
}

interface PanelStateOptions<T> {
  /** What is loaded, with its article: "the files". */
  what: string;
  /** What the panel says in place of data that it cannot draw; null where it can. */
  empty?: (data: T) => PanelState | null;
}

/** The state of a panel that shows one query. Data that is there stays when a later request fails. */
export function panelState<T>({ data, error }: Query<T>, { what, empty }: PanelStateOptions<T>): PanelState {
  if (data !== null && data !== undefined) return empty?.(data) ?? { kind: "data" };
  if (error === null) return { kind: "loading" };
  const text = typeof error === "string" ? error : error.message;
  return { kind: "error", title: `Could not load ${what}`, text };
}
