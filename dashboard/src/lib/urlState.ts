/** What is a view lives in the address, so that a copied link shows the same thing. */
import { useCallback, useMemo, useSyncExternalStore } from "react";

const CHANGED = "midstep:url";

/** The query with one value set, or without it when the value is the default. */
export function withValue(search: string, key: string, value: string | null): string {
  const query = new URLSearchParams(search);
  if (value === null) query.delete(key);
  else query.set(key, value);
  const text = query.toString();
  return text === "" ? "" : `?${text}`;
}

/** The query with all values of a name replaced. */
export function withValues(search: string, key: string, values: readonly string[]): string {
  const query = new URLSearchParams(search);
  query.delete(key);
  for (const value of values) query.append(key, value);
  const text = query.toString();
  return text === "" ? "" : `?${text}`;
}

function replaceQuery(change: (search: string) => string): void {
  const { pathname, search, hash } = window.location;
  const next = change(search);
  if (next === search) return;
  // Replaced, not pushed: the back button leads to the last page, not through every sort order.
  window.history.replaceState(window.history.state, "", pathname + next + hash);
  window.dispatchEvent(new Event(CHANGED));
}

function write(key: string, value: string | null): void {
  replaceQuery((search) => withValue(search, key, value));
}

function subscribe(onChange: () => void): () => void {
  window.addEventListener(CHANGED, onChange);
  window.addEventListener("popstate", onChange);
  return () => {
    window.removeEventListener(CHANGED, onChange);
    window.removeEventListener("popstate", onChange);
  };
}

/** A value of the view: `const [sort, setSort] = useUrlState("sort", "order")`. */
export function useUrlState(key: string, fallback: string): [string, (value: string) => void] {
  const read = () => new URLSearchParams(window.location.search).get(key) ?? fallback;
  const value = useSyncExternalStore(subscribe, read);
  const set = useCallback((next: string) => write(key, next === fallback ? null : next), [key, fallback]);
  return [value, set];
}

/** A value of the view that is one of a few; anything else in the address counts as the first. */
export function useUrlChoice<T extends string>(
  key: string,
  choices: readonly [T, ...T[]],
): [T, (value: T) => void] {
  const [value, set] = useUrlState(key, choices[0]);
  return [choices.find((choice) => choice === value) ?? choices[0], set];
}

/** Several values of one name: `?where=lr=0.1&where=k=8`. */
export function useUrlList(key: string): [readonly string[], (values: readonly string[]) => void] {
  const text = useSyncExternalStore(subscribe, () =>
    new URLSearchParams(window.location.search).getAll(key).join("\n"),
  );
  const values = useMemo(() => (text === "" ? [] : text.split("\n")), [text]);
  const set = useCallback(
    (next: readonly string[]) => replaceQuery((search) => withValues(search, key, next)),
    [key],
  );
  return [values, set];
}
