import { describe, expect, it } from "vitest";
import { releasedBy } from "./pointerFocus";

/** An element inside others, as their selectors see it. */
const inside = (...ancestors: string[]) => ({
  closest: (selector: string) =>
    (ancestors.find((one) => selector.split(", ").includes(one)) ?? null) as unknown as Element | null,
});

describe("releasedBy", () => {
  it("takes focus from a button that was clicked, not from one that a key pressed", () => {
    expect(releasedBy(1, inside("button"))).toBe("button");
    expect(releasedBy(2, inside("a[href]"))).toBe("a[href]");
    expect(releasedBy(0, inside("button"))).toBeNull();
  });

  it("leaves fields, menus and dialogs alone", () => {
    expect(releasedBy(1, inside())).toBeNull();
    expect(releasedBy(1, inside("button", "dialog"))).toBeNull();
    expect(releasedBy(1, inside("button", "[role=menu]"))).toBeNull();
  });
});
