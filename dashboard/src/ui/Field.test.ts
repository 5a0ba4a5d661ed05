import { describe, expect, it } from "vitest";
import { numberProblem, parseNumber } from "./Field";

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

describe("numberProblem", () => {
  const atLeastOne = (value: number) => (value < 1 ? "Enter 1 or more" : null);

  it.each([
    ["abc", true, "Enter a whole number"],
    ["2.5", true, "Enter a whole number"],
    ["x", false, "Enter a number"],
    ["0", true, "Enter 1 or more"],
    ["12", true, null],
    ["", true, null],
  ])("%s, whole %s → %s", (text, whole, problem) =>
    expect(numberProblem(text, whole, atLeastOne)).toBe(problem),
  );
});
