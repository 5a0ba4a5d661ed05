import { describe, expect, it } from "vitest";
import { addressOf, firstPage } from "./navigation";

describe("addressOf", () => {
  it("takes run and theme along to another page, and nothing else", () => {
    expect(addressOf("/runs", "?run=r1&theme=dark&tab=data")).toBe("/runs?run=r1&theme=dark");
    expect(addressOf("/live", "?run=r1", { run: "r2" })).toBe("/live?run=r2");
    expect(addressOf("/live", "")).toBe("/live");
  });
});

describe("firstPage", () => {
  it("is Live where something is live, or where there is only one run", () => {
    expect(firstPage([{ live: false }, { live: true }])).toBe("/live");
    expect(firstPage([{ live: false }])).toBe("/live");
    expect(firstPage(undefined)).toBe("/live");
  });

  it("is the list where there is a choice, or nothing yet", () => {
    expect(firstPage([{ live: false }, { live: false }])).toBe("/runs");
    expect(firstPage([])).toBe("/runs");
  });
});
