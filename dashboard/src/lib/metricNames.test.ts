import { describe, expect, it } from "vitest";
import { mainMetric, metricsOf, metricTitle } from "./metricNames";

describe("metrics", () => {
  it("are named for people, the validation loss first", () => {
    expect(metricTitle("val_loss")).toBe("Validation loss");
    expect(metricTitle("weight_cos")).toBe("Weight cos");
    expect(mainMetric([["accuracy", "loss", "val_loss"]])).toBe("val_loss");
    expect(mainMetric([["accuracy"]])).toBe("accuracy");
    expect(mainMetric([])).toBeNull();
  });

  it("begin with what most runs have, not with that of one odd run", () => {
    expect(mainMetric([["loss"], ["loss"], ["val_loss", "loss"]])).toBe("loss");
    expect(
      mainMetric([
        ["loss_d", "loss_g"],
        ["loss_d", "loss_g"],
        ["accuracy", "zebra"],
      ]),
    ).toBe("loss_d");
    expect(mainMetric([[], ["accuracy"], ["reward"]])).toBe("accuracy");
  });

  it("of a run are what it logged and what it told at the ends of epochs, each once", () => {
    const summary = { val_loss: 1, best_val_loss: 1, steps_per_s: 9, loss: 2 };
    expect(metricsOf({ scalars: ["loss"], summary })).toEqual(["loss", "val_loss"]);
    expect(metricsOf({ scalars: [], summary: {} })).toEqual([]);
  });
});
