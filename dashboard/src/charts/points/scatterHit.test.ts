import { describe, expect, it } from "vitest";
import { pointAfter, pointUnder, positionOf, scatterFrame } from "./scatterHit";

const points = { x: [1, 10, 100, Number.NaN], y: [5, 1, 3, 2] };
const frame = scatterFrame(points, { width: 400, height: 300 }, true, false);

describe("scatter", () => {
  it("finds the nearest point within reach", () => {
    const [x, y] = positionOf(frame, points, 1) ?? [0, 0];
    expect(pointUnder(frame, points, x + 5, y - 5)).toBe(1);
    expect(pointUnder(frame, points, x + 40, y)).toBeNull();
  });

  it("gives what is not a number no place", () => {
    expect(positionOf(frame, points, 3)).toBeNull();
  });

  it("walks by x with left and right, by y with up and down, and stops at the ends", () => {
    expect(pointAfter("ArrowRight", points, 0)).toBe(1);
    expect(pointAfter("ArrowRight", points, 2)).toBe(2);
    expect(pointAfter("ArrowUp", points, 1)).toBe(2);
    expect(pointAfter("ArrowLeft", points, null)).toBe(0);
    expect(pointAfter("Enter", points, 0)).toBeNull();
    expect(pointAfter("ArrowUp", { x: [], y: [] }, null)).toBeNull();
  });
});
