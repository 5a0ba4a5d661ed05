import { describe, expect, it } from "vitest";
import { furtherKeys } from "./panelKeys";

describe("furtherKeys", () => {
  it("leaves out the layers where the Step tab shows them", () => {
    expect(furtherKeys(["layers"], "", { layers: "table" })).toEqual([]);
    expect(furtherKeys(["layers", "dead"], "", { layers: "table", dead: "table" })).toEqual(["dead"]);
  });

  it("has them where the Step tab shows another entry", () => {
    const panels = { bcl: "table", layers: "table" } as const;
    expect(furtherKeys(["bcl", "layers"], "", panels)).toEqual(["bcl", "layers"]);
    expect(furtherKeys(["bcl", "layers"], "layers", panels)).toEqual(["bcl"]);
  });
});
