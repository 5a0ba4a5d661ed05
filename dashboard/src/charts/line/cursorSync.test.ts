import { expect, it } from "vitest";
import { CursorSync } from "./cursorSync";

it("tells every chart where the cursor is and which chart moved it, once per move", () => {
  const sync = new CursorSync();
  const moves: unknown[] = [];
  const leave = sync.subscribe((x, source) => moves.push([x, source]));
  sync.set(7, "a");
  sync.set(7, "b");
  sync.set(null, "a");
  leave();
  sync.set(9, "a");
  expect(moves).toEqual([
    [7, "a"],
    [null, "a"],
  ]);
});
