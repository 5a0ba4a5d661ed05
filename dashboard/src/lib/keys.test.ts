import { describe, expect, it } from "vitest";
import { KeyChords, type KeyPress, nameOfKey, ownerOf, pageTakes } from "./keys";

const press = (key: string, more: Partial<KeyPress> = {}): KeyPress => ({
  key,
  ctrlKey: false,
  metaKey: false,
  altKey: false,
  shiftKey: false,
  ...more,
});

/** An element for which exactly these selectors match. */
const inside = (...matching: string[]) => ({
  closest: (selector: string) =>
    selector.split(", ").some((part) => matching.includes(part)) ? ({} as Element) : null,
});

describe("nameOfKey", () => {
  it.each([
    [press(" "), "Space"],
    [press("ArrowRight"), "→"],
    [press("ArrowRight", { shiftKey: true }), "Shift →"],
    [press("n"), "N"],
    [press("?", { shiftKey: true }), "?"],
    [press("k", { ctrlKey: true }), "Ctrl K"],
    [press("k", { metaKey: true }), "Ctrl K"],
    [press("[", { ctrlKey: true, altKey: true, altGraph: true }), "["],
    [press("Shift", { shiftKey: true }), null],
    [press("n", { altKey: true }), null],
  ])("%o is %s", (event, name) => expect(nameOfKey(event)).toBe(name));
});

describe("ownership of keys", () => {
  it("leaves everything to a field except Ctrl K", () => {
    const owner = ownerOf(inside("textarea") as Element);
    expect(pageTakes("N", owner, true)).toBe(false);
    expect(pageTakes("Esc", owner, true)).toBe(false);
    expect(pageTakes("Ctrl Z", owner, true)).toBe(false);
    expect(pageTakes("Ctrl K", owner, true)).toBe(true);
  });

  it("leaves arrows and Space to a grid or chart, and takes letters", () => {
    for (const selector of ["[data-keys]", "[role=grid]", "[role=slider]", "table"]) {
      const owner = ownerOf(inside(selector) as Element);
      expect(pageTakes("→", owner, true)).toBe(false);
      expect(pageTakes("Space", owner, true)).toBe(false);
      expect(pageTakes("B", owner, true)).toBe(true);
    }
  });

  it("lets a focused button be pressed by Space, and takes the arrows", () => {
    const owner = ownerOf(inside("button") as Element);
    expect(pageTakes("Space", owner, true)).toBe(false);
    expect(pageTakes("→", owner, true)).toBe(true);
  });

  it("acts on the page itself, unless single keys are off", () => {
    expect(pageTakes("Space", ownerOf(null), true)).toBe(true);
    expect(pageTakes("Space", ownerOf(null), false)).toBe(false);
    expect(pageTakes("Ctrl K", ownerOf(null), false)).toBe(true);
  });
});

describe("KeyChords", () => {
  it("joins G and the next key", () => {
    const chords = new KeyChords();
    expect(chords.press("G", 0)).toBe(null);
    expect(chords.press("L", 500)).toBe("G L");
    expect(chords.press("L", 600)).toBe("L");
  });

  it("forgets G after a while", () => {
    const chords = new KeyChords();
    chords.press("G", 0);
    expect(chords.press("R", 5_000)).toBe("R");
  });
});
