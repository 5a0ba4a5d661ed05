import { describe, expect, it } from "vitest";
import { ColorAssignments, SERIES } from "./seriesColors";

describe("ColorAssignments", () => {
  it("gives an id that was hidden its colour again, while there are others for new ones", () => {
    const colours = new ColorAssignments();
    expect(["a", "b", "c"].map((id) => colours.slotOf(id))).toEqual([0, 1, 2]);
    colours.keep(["b"]);
    expect(colours.slotOf("d")).toBe(3);
    expect(["a", "b", "c"].map((id) => colours.slotOf(id))).toEqual([0, 1, 2]);
  });

  it("never gives two shown ids one slot, whatever is hidden and shown, and changes none while it is shown", () => {
    const colours = new ColorAssignments();
    const shown = new Map<string, number>();
    let state = 7;
    for (let turn = 0; turn < 2_000; turn += 1) {
      state = (state * 16_807) % 2_147_483_647;
      const id = String(state % 15);
      if (!shown.delete(id)) shown.set(id, -1);
      colours.keep([...shown.keys()]);
      for (const [each, before] of shown) {
        const slot = colours.slotOf(each);
        const others = [...shown].filter(([other, one]) => other !== each && one >= 0 && one < SERIES);
        if (before >= 0) expect(slot).toBe(before);
        // Grey is for the seventh.
        else expect(slot < SERIES).toBe(others.length < SERIES);
        shown.set(each, slot);
      }
      expect(new Set(shown.values()).size).toBe(shown.size);
    }
  });
});
