import { describe, expect, it } from "vitest";
import { positionBeside } from "./popoverPosition";

const screen = { width: 1280, height: 720 };
const layer = { width: 100, height: 50 };
const at = (left: number, top: number) => ({ left, top, width: 40, height: 20 });

describe("positionBeside", () => {
  it("stands below, aligned with either end or the middle", () => {
    expect(positionBeside(at(200, 100), layer, screen, "bottom", "start")).toEqual({ left: 200, top: 124 });
    expect(positionBeside(at(200, 100), layer, screen, "bottom", "end")).toEqual({ left: 140, top: 124 });
    expect(positionBeside(at(200, 100), layer, screen, "bottom", "center")).toEqual({ left: 170, top: 124 });
  });

  it("turns to the other side where there is no room, and never covers its control", () => {
    expect(positionBeside(at(200, 690), layer, screen, "bottom", "start").top).toBe(636);
    expect(positionBeside(at(1230, 100), layer, screen, "right", "start").left).toBe(1126);
  });

  it("stays on the screen", () => {
    expect(positionBeside(at(1250, 100), layer, screen, "bottom", "start").left).toBe(1172);
    expect(positionBeside(at(0, 100), layer, screen, "bottom", "end").left).toBe(8);
  });
});
