/** The few things a browser remembers. */
import { create } from "zustand";

const KEY = "midstep.singleKeys";

export const usePreferences = create<{ singleKeys: boolean }>()(() => ({
  singleKeys: typeof localStorage === "undefined" || localStorage.getItem(KEY) !== "off",
}));

/** Switches single-key shortcuts on or off, for people whose input method gets in their way. */
export function setSingleKeys(on: boolean): void {
  localStorage.setItem(KEY, on ? "on" : "off");
  usePreferences.setState({ singleKeys: on });
}
