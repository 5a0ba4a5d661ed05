/** Keys as the key list writes them, and whom they belong to (design section 5). */

export interface KeyPress {
  key: string;
  ctrlKey: boolean;
  metaKey: boolean;
  altKey: boolean;
  shiftKey: boolean;
  /** Held to type a character: [ on a German keyboard. It then counts as no modifier. */
  altGraph?: boolean;
}

const NAMES: Record<string, string> = {
  " ": "Space",
  ArrowRight: "→",
  ArrowLeft: "←",
  ArrowUp: "↑",
  ArrowDown: "↓",
  Escape: "Esc",
};

/** "Space", "Shift →", "Ctrl K", "N", "?"; Cmd on a Mac counts as Ctrl. Null for a modifier alone or with Alt. */
export function nameOfKey({ key, shiftKey, altGraph = false, ...held }: KeyPress): string | null {
  const { ctrlKey, metaKey, altKey } = altGraph ? { ctrlKey: false, metaKey: false, altKey: false } : held;
  if (altKey || ["Shift", "Control", "Meta", "Alt", "AltGraph", "Dead"].includes(key)) return null;
  const named = NAMES[key] ?? (key.length === 1 ? key.toUpperCase() : key);
  // Shift is part of the character for ? and the like, but a key of its own with arrows.
  const shift = shiftKey && key in NAMES ? "Shift " : "";
  return `${ctrlKey || metaKey ? "Ctrl " : ""}${shift}${named}`;
}

export type Owner = "page" | "widget" | "button" | "text";

const TEXT =
  "input:not([type=checkbox]):not([type=radio]):not([type=range]), textarea, select, [contenteditable=true], [role=menu], [role=listbox], dialog";
const WIDGET =
  "[data-keys], input[type=range], [role=slider], [role=grid], [role=treegrid], [role=table], table, [role=tablist], [role=radiogroup], [role=tree]";
const BUTTON = "button, a[href], summary, [role=button]";

/** Whom the keys belong to while this element has focus. */
export function ownerOf(element: Pick<Element, "closest"> | null): Owner {
  if (element === null) return "page";
  if (element.closest(TEXT) !== null) return "text";
  if (element.closest(WIDGET) !== null) return "widget";
  if (element.closest(BUTTON) !== null) return "button";
  return "page";
}

const MOVING = new Set(["Space", "Enter", "→", "←", "↑", "↓", "Shift →", "Shift ←", "Shift ↑", "Shift ↓"]);

/** Whether the page may act on this key. Ctrl K always may; other combinations and Esc where no field wants them. */
export function pageTakes(keys: string, owner: Owner, singleKeysOn: boolean): boolean {
  if (keys === "Ctrl K") return true;
  if (owner === "text") return false;
  if (keys === "Esc" || keys.startsWith("Ctrl ")) return true;
  if (!singleKeysOn) return false;
  if (owner === "widget") return !MOVING.has(keys);
  if (owner === "button") return keys !== "Space" && keys !== "Enter";
  return true;
}

const CHORD_MS = 1_500;

/** Joins "G" and the next key to "G L" when they follow each other closely. */
export class KeyChords {
  private first: string | null = null;
  private firstAt = 0;

  press(keys: string, now: number): string | null {
    const joined = this.first !== null && now - this.firstAt <= CHORD_MS ? `${this.first} ${keys}` : null;
    this.first = null;
    if (joined !== null) return joined;
    if (keys !== "G") return keys;
    this.first = keys;
    this.firstAt = now;
    return null;
  }
}
