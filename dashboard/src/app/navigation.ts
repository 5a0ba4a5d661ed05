import { useCallback } from "react";
import { useLocation } from "wouter";

/** What goes along from page to page; the rest of the address belongs to the page it was set on. */
const KEPT = ["run", "theme"];

/** The address of a page, with the run and the theme that are on the screen. */
export function addressOf(path: string, search: string, changes: Record<string, string> = {}): string {
  const now = new URLSearchParams(search);
  const next = new URLSearchParams();
  for (const key of KEPT) {
    const value = now.get(key);
    if (value !== null) next.set(key, value);
  }
  for (const [key, value] of Object.entries(changes)) next.set(key, value);
  const query = next.toString();
  return query === "" ? path : `${path}?${query}`;
}

/** The page to begin with: the list where no run is live and there is not exactly one to look at. */
export function firstPage(runs: readonly { live: boolean }[] | undefined): "/live" | "/runs" {
  if (runs === undefined || runs.length === 1) return "/live";
  return runs.some(({ live }) => live) ? "/live" : "/runs";
}

/** Goes to a page. */
export function useGo(): (path: string, changes?: Record<string, string>) => void {
  const [, navigate] = useLocation();
  return useCallback(
    (path, changes) => navigate(addressOf(path, window.location.search, changes)),
    [navigate],
  );
}
