import { describe, expect, it } from "vitest";
import { mainMeasure, measuresOf, measureTitle } from "./metricNames";

describe("measures", () => {
  it("are named for people, the validation loss first", () => {
    expect(measureTitle("val_loss")).toBe("Validation loss");
    expect(measureTitle("weight_cos")).toBe("Weight cos");
    expect(mainMeasure(["accuracy", "loss", "val_loss"])).toBe("val_loss");
    expect(mainMeasure(["accuracy"])).toBe("accuracy");
    expect(mainMeasure([])).toBeNull();
  });

  it("of a run are what it logged and what it told at the ends of epochs, each once", () => {
    const summary = { val_loss: 1, best_val_loss: 1, steps_per_s: 9, loss: 2 };
    expect(measuresOf({ scalars: ["loss"], summary })).toEqual(["loss", "val_loss"]);
    expect(measuresOf({ scalars: [], summary: {} })).toEqual([]);
  });
});
