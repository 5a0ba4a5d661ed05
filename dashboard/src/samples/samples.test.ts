import { describe, expect, it } from "vitest";
import { fakeBatch as batch } from "./fakeBatch";
import { samplesOf, shownOrder } from "./samples";

describe("samplesOf", () => {
  it("knows id, label, loss, rank and place on the scale", () => {
    const { all, lossRange } = samplesOf(batch({}));
    expect(lossRange).toEqual({ low: 0.01, high: 1, scale: { factor: 1, unit: "" } });
    expect(all[0]).toMatchObject({ batchIndex: 0, id: 70, label: "7", loss: 0.1, rank: 2, isOutlier: false });
    expect(all[0]?.magnitude).toBeCloseTo(0.5, 12);
  });

  it("writes all losses of a batch in one scale, by the largest size", () => {
    const unit = (losses: (number | "NaN")[]) => samplesOf(batch({ losses })).lossRange?.scale.unit;
    expect(unit([0.003, 0.0001, 0.011, "NaN"])).toBe("×10⁻³");
    expect(unit([0.003, 0.0001, 0.11, 0.001])).toBe("");
    expect(unit([-0.3, -0.2, -0.1, 0.001])).toBe("");
  });

  it("rings a loss that is NaN and ranks it last", () => {
    expect(samplesOf(batch({})).all[1]).toMatchObject({ rank: 4, isOutlier: true });
  });

  it("does without losses, labels and ids", () => {
    const samples = samplesOf(batch({ losses: null, labels: null, sample_ids: null }));
    expect(samples.lossRange).toBeNull();
    expect(samples.all[3]).toMatchObject({ id: 3, label: null, loss: null, rank: null, isOutlier: false });
    expect(shownOrder(samples, "loss")).toEqual([0, 1, 2, 3]);
  });

  it("says of classes whether they are right, and of other predictions nothing", () => {
    const right = (changes: Parameters<typeof batch>[0]) =>
      samplesOf(batch(changes)).all.map(({ isRight }) => isRight);
    const predictions = [7, 1, 1, 2];
    expect(right({ predictions, probabilities: [1, 1, 1, 1] })).toEqual([true, false, true, true]);
    expect(right({ predictions })).toEqual([null, null, null, null]);
    expect(right({})).toEqual([null, null, null, null]);
  });

  it("counts values that are not finite, sample by sample", () => {
    const { all } = samplesOf(batch({ nonfinite: 3, nonfinite_in: [0, 3, 0, 0] }));
    expect(all.map(({ broken }) => broken)).toEqual([0, 3, 0, 0]);
  });

  it("orders by loss with NaN last, or as the loader did", () => {
    const samples = samplesOf(batch({}));
    expect(shownOrder(samples, "loss")).toEqual([2, 0, 3, 1]);
    expect(shownOrder(samples, "loader")).toEqual([0, 1, 2, 3]);
  });
});
