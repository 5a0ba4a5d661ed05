import { describe, expect, it } from "vitest";
import type { DiagnosedChange, DiagnosedLayer, Plane } from "@/api/types";
import { badShare, changeValue, layerCounts, linePoints } from "./diagnosisText";
import { planeValues } from "./SampleCause";

const change = (key: string) => ({ key }) as DiagnosedChange;
const layer = (status: DiagnosedLayer["status"], bad: DiagnosedLayer["bad"] = 0) =>
  ({ status, bad }) as DiagnosedLayer;

describe("the words of a diagnosis", () => {
  it("writes each value as its kind is written", () => {
    expect(changeValue(change("lr"), 0.001)).toBe("1.0e−3");
    expect(changeValue(change("batch_size"), 64)).toBe("64");
    expect(changeValue(change("loss_share"), 0.31)).toBe("31 %");
    expect(changeValue(change("grad_norm"), "NaN")).toBe("NaN");
    expect(changeValue(change("inputs"), null)).toBe("—");
  });

  it("never writes a share that is there as nothing", () => {
    expect(
      [layer("ok", 0), layer("first", 1e-6), layer("carries", 0.0033), layer("ok", null)].map(badShare),
    ).toEqual(["0.00", "< 0.01", "0.33", "—"]);
  });

  it("counts sources apart from layers", () => {
    expect(layerCounts([layer("source"), layer("first"), layer("carries")])).toBe("1 source · 2 not finite");
    expect(layerCounts([layer("ok"), layer("first")])).toBe("1 not finite");
  });
});

describe("a line of the last steps", () => {
  it("leaves out what is unknown or not finite", () => {
    expect(linePoints([null, 1, 3, "NaN"], 30, 10)).toEqual([null, { x: 10, y: 10 }, { x: 20, y: 0 }, null]);
  });

  it("is in the middle where nothing changed", () => {
    expect(linePoints([2, 2], 10, 10)).toEqual([
      { x: 0, y: 5 },
      { x: 10, y: 5 },
    ]);
    expect(linePoints([null], 10, 10)).toEqual([null]);
  });
});

describe("a picture of a sample", () => {
  it("has its values back, and NaN where they are not finite", () => {
    const plane = { levels: btoa(String.fromCharCode(0, 254, 255)), low: -1, high: 1 } as Plane;
    expect([...planeValues(plane)]).toEqual([-1, 1, Number.NaN]);
  });
});
