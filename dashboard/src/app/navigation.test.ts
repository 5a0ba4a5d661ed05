import { describe, expect, it } from "vitest";
import { addressOf } from "./navigation";

describe("addressOf", () => {
  it("takes run and theme along to another page, and nothing else", () => {
    expect(addressOf("/runs", "?run=r1&theme=dark&tab=data")).toBe("/runs?run=r1&theme=dark");
    expect(addressOf("/live", "?run=r1", { run: "r2" })).toBe("/live?run=r2");
    expect(addressOf("/live", "")).toBe("/live");
  });
});
