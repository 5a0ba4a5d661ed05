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
      payload: { step: 40 },
      who: "page",
      asked_step: 7,
      crc: "ab",
    });
    expect(line).toMatchObject({ title: "Run to", who: "page", tone: "intervention" });
    expect(line.text).toBe("step 40 · requested at step 7");
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
    expect(line).toMatchObject({ title: "Checkpoint", tone: "plain", text: "written in 25 ms", who: null });
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

  const said = (fields: Record<string, unknown>) => {
    const { title, text, tone } = eventLine({ seq: 1, moment: "on_intervention", who: "page", ...fields });
    return { title, text, tone };
  };

  it("says what a command did without the names of its fields", () => {
    const command = { kind: "command", status: "done", command_seq: 4, duration_s: 0.026 };
    expect(said({ ...command, command: "step", payload: { n: 2 } })).toEqual({
      title: "Step",
      text: "2 steps · 26 ms",
      tone: "intervention",
    });
    const refused = { ...command, status: "failed", reason: "There are only 11 steps to go back." };
    expect(said({ ...refused, command: "back", payload: { n: 500 } })).toEqual({
      title: "Back",
      text: "500 steps · failed: There are only 11 steps to go back.",
      tone: "bad",
    });
    expect(said({ ...command, command: "set_hparams", payload: { lr: 0.01, momentum: 3 } }).text).toBe(
      "lr 0.01, momentum 3 · 26 ms",
    );
    expect(said({ ...command, command: "my_plugin", payload: { rows: [1, 2] } })).toMatchObject({
      title: "My plugin",
      text: "rows 1, 2 · 26 ms",
    });
  });

  it("counts timelines from 1, as everywhere on the page", () => {
    expect(
      said({ kind: "rewind", cause: "back", from_step: 12, step: 9, parent: 0, timeline: 1 }),
    ).toMatchObject({ title: "Went back", text: "from step 12 to step 9 · by Back · timeline 2 begins" });
  });

  it("says changes of values as before and after", () => {
    const change = { kind: "hparams", old: { lr: [0.05] }, new: { lr: [0.01], momentum: [3] } };
    expect(said(change)).toMatchObject({ title: "Hyperparameters", text: "lr 0.05 → 0.01, momentum 3" });
  });

  it("says what a breakpoint measured, and what was not recorded", () => {
    const hit = { kind: "mark", breakpoint: 1, condition: "loss > 0.2", value: 1.96605, limit: 0.2 };
    expect(said(hit)).toMatchObject({ title: "Mark of 1", text: "loss > 0.2, measured 1.966" });
    expect(said({ ...hit, kind: "breakpoint", condition: "step = 12", value: 12 }).text).toBe("step = 12");
    expect(said({ kind: "value_refused", name: "x", reason: "an object is not a number" }).text).toBe(
      "log(x=…): an object is not a number",
    );
  });

  it("has no field name, bracket or JSON in any kind of record", () => {
    const odd = { a_b: { c_d: [1, "x"] }, file: "a", bytes: 3, hook: "h", why: "y", reason: "r", name: "n" };
    for (const kind of ["torn_tail_cut", "damaged_record", "hook_off", "not_kept", "training", "unheard_of"])
      expect(said({ ...odd, kind }).text).not.toMatch(/[{}[\]"_]/);
  });

  it("says losses that are not finite, and how a run ended", () => {
    const epoch = eventLine({
      seq: 1,
      moment: "on_epoch_end",
      epoch: 2,
      train_loss: "NaN",
      val_loss: "Infinity",
    });
    expect(epoch.text).toBe("epoch 3 · train NaN · validation ∞");
    const end = eventLine({ seq: 1, moment: "on_train_end", status: "finished", total_time_s: 2 });
    expect(end.text).toBe("finished · 2.0 s");
  });
});
