import { describe, expect, it } from "vitest";
import { parseNumber } from "./Field";

describe("parseNumber", () => {
  it.each([
    ["13,000", true, 13_000],
    [" 13 000 ", true, 13_000],
    ["−3", true, -3],
    ["1e4", true, 10_000],
    ["0.5", false, 0.5],
    ["0.5", true, null],
    ["12 steps", true, null],
    ["", true, null],
  ])("%s, whole %s → %s", (text, whole, value) => expect(parseNumber(text, whole)).toBe(value));
});
