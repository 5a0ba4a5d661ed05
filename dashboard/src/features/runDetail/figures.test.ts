import { describe, expect, it } from "vitest";
import type { RunFile } from "@/api/types";
import { failureText, figuresOf, NO_FAILURES, newestOf, seriesOf, titleOf, withFailures } from "./figures";

const file = (path: string, modified_at: number, kind: RunFile["kind"] = "figure"): RunFile => ({
  id: path,
  path,
  bytes: 1,
  kind,
  own: true,
  modified_at,
});

const FILES = [
  file("figures/losses-on_epoch_end-e000.png", 1),
  file("figures/losses-on_epoch_end-e010.png", 3),
  file("figures/recon_2-on_train_end-e010.png", 2),
  file("figures/mine.svg", 4),
  file("figures/table.pdf", 5),
  file("notes.png", 6, "other"),
];

describe("figures", () => {
  it("shows the newest of each family, and walks through the epochs of one", () => {
    const figures = figuresOf(FILES);
    expect(figures.map(titleOf)).toEqual([
      "mine.svg",
      "losses after epoch 10",
      "recon_2 after epoch 10",
      "losses after epoch 0",
    ]);
    expect(newestOf(figures).map(titleOf)).toEqual([
      "losses after epoch 10",
      "mine.svg",
      "recon_2 after epoch 10",
    ]);
    expect(seriesOf(figures, "losses").map(({ epoch }) => epoch)).toEqual([0, 10]);
  });

  it("adds up failures of families over several answers", () => {
    const first = withFailures(NO_FAILURES, [
      { seq: 4, moment: "on_epoch_end" },
      { seq: 5, moment: "on_intervention", kind: "figure_failed", family: "recon", error: "E: no", times: 1 },
    ]);
    expect(first).toEqual({ seq: 5, families: { recon: { times: 1, error: "E: no" } } });
    const second = withFailures(first, [
      { seq: 9, moment: "on_intervention", kind: "figure_failed", family: "recon", times: 3 },
    ]);
    expect(Object.entries(second.families).map(([name, failed]) => failureText(name, failed))).toEqual([
      "Figures of recon failed, 3 times: E: no",
    ]);
    expect(withFailures(second, [])).toEqual(second);
  });
});
