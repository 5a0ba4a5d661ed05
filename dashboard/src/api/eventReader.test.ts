import { describe, expect, it } from "vitest";
import { waitBeforeRetry } from "./eventReader";

describe("waitBeforeRetry", () => {
  it("doubles up to a limit, with some chance in it", () => {
    expect([0, 1, 2, 10].map((attempt) => waitBeforeRetry(attempt, 1))).toEqual([250, 500, 1000, 5000]);
    expect(waitBeforeRetry(0, 0)).toBe(125);
  });
});
