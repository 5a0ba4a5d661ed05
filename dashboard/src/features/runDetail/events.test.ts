import { describe, expect, it } from "vitest";
import { eventLine } from "./events";

describe("eventLine", () => {
  it("tells epochs by their losses", () => {
    const line = eventLine({
      seq: 4,
      moment: "on_epoch_end",
      wall: 100,
      step: 20,
      epoch: 0,
      train_loss: 0.5,
      val_loss: null,
      metrics: { accuracy: 0.75 },
      epoch_time_s: 2,
    });
    expect(line).toMatchObject({ title: "Epoch", step: 20, at: 100, who: null, tone: "plain" });
    expect(line.text).toBe("epoch 1 · train 0.5000 · accuracy 0.7500 · 2.0 s");
  });

  it("tells interventions by their command, who asked, and what else was said", () => {
    const line = eventLine({
      seq: 9,
      moment: "on_intervention",
      wall: 1,
      step: 8,
      command: "run_until",
      who: "page",
      asked_step: 7,
      bytes: 2048,
      crc: "ab",
    });
    expect(line).toMatchObject({ title: "Run until", who: "page", tone: "intervention" });
    expect(line.text).toBe("requested at step 7 · bytes 2.0 KiB");
  });

  it("does not count what the loop does by itself as an intervention", () => {
    const line = eventLine({
      seq: 2,
      moment: "on_intervention",
      who: "system",
      kind: "checkpoint",
      step: 4,
      took_s: 0.025,
      best: false,
    });
    expect(line).toMatchObject({ title: "Checkpoint", tone: "plain", text: "took 25 ms" });
  });

  it("calls records of a step by their kind, and tells the first of their numbers", () => {
    const line = eventLine({ seq: 3, moment: "on_step", kind: "feature_health", metrics: { l1: 0.25 } });
    expect(line).toMatchObject({ title: "Feature health", text: "l1 0.2500" });
    expect(eventLine({ seq: 3, moment: "on_other" }).title).toBe("Other");
  });

  it("lets exceptions stand out", () => {
    const line = eventLine({ seq: 1, moment: "on_exception", type: "ValueError", message: "loss is NaN" });
    expect(line).toMatchObject({ title: "Exception", tone: "bad", text: "ValueError · loss is NaN" });
  });
});
