/** Light or dark: the system decides until the user picks; the pick goes into the address and is kept for next time. */
import { useSyncExternalStore } from "react";
import { withValue } from "./urlState";

export type Theme = "light" | "dark";

const KEY = "midstep.theme";
const CHANGED = "midstep:theme";

function asTheme(value: string | null): Theme | null {
  return value === "light" || value === "dark" ? value : null;
}

const darkSystem = () => window.matchMedia("(prefers-color-scheme: dark)");

/** What the user picked, if anything; the address wins over what was kept. */
function picked(): Theme | null {
  const inAddress = asTheme(new URLSearchParams(window.location.search).get("theme"));
  return inAddress ?? asTheme(window.localStorage.getItem(KEY));
}

function resolved(): Theme {
  return asTheme(document.documentElement.dataset.theme ?? null) ?? (darkSystem().matches ? "dark" : "light");
}

/** Called once before the first paint. */
export function initialiseTheme(): void {
  const theme = picked();
  if (theme !== null) document.documentElement.dataset.theme = theme;
}

/** Picks the other theme. */
export function switchTheme(): void {
  const theme: Theme = resolved() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  window.localStorage.setItem(KEY, theme);
  const { pathname, search, hash } = window.location;
  window.history.replaceState(window.history.state, "", pathname + withValue(search, "theme", theme) + hash);
  window.dispatchEvent(new Event(CHANGED));
}

function subscribe(onChange: () => void): () => void {
  const system = darkSystem();
  window.addEventListener(CHANGED, onChange);
  system.addEventListener("change", onChange);
  return () => {
    window.removeEventListener(CHANGED, onChange);
    system.removeEventListener("change", onChange);
  };
}

/** The theme on the screen; canvases redraw when it changes. */
export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, resolved);
}
