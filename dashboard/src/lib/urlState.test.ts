import { describe, expect, it } from "vitest";
import { withValue } from "./urlState";

describe("view state in the address", () => {
  it("sets, replaces and removes a value and keeps the rest", () => {
    expect(withValue("", "tab", "data")).toBe("?tab=data");
    expect(withValue("?run=a&tab=step", "tab", "data")).toBe("?run=a&tab=data");
    expect(withValue("?run=a&tab=data", "tab", null)).toBe("?run=a");
    expect(withValue("?tab=data", "tab", null)).toBe("");
  });

  it("survives values that need escaping", () => {
    const search = withValue("", "filter", "a&b=c d");
    expect(new URLSearchParams(search).get("filter")).toBe("a&b=c d");
  });
});
