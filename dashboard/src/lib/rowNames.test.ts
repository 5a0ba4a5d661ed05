import { describe, expect, it } from "vitest";
import { rowNames } from "./rowNames";

const hint = {
  fields: { rate: { label: "Win rate" }, som_magnitude: { label: "SOM" }, plain: { label: null } },
  status: { field: "rate" },
  sort: { field: "plain" },
};

describe("names of a run's columns", () => {
  it("come from its hint", () => {
    const { labelOf, main, order } = rowNames(hint);
    expect(["rate", "som_magnitude"].map(labelOf)).toEqual(["Win rate", "SOM"]);
    expect(main).toBe("rate");
    expect(order).toEqual(["rate", "weight_cos_to_init", "som_magnitude", "plain"]);
  });

  it("are those of the columns where the run says nothing", () => {
    const { labelOf, main, order } = rowNames(null);
    expect(["grad_magnitude", "som_magnitude", "mean_activation", "constructor"].map(labelOf)).toEqual([
      "Gradient",
      "Other force",
      "Mean activation",
      "Constructor",
    ]);
    expect(main).toBeNull();
    expect(order).toEqual(["weight_cos_to_init"]);
  });

  it("take the column of the sort where no status is named", () => {
    expect(rowNames({ ...hint, status: null }).main).toBe("plain");
  });
});
