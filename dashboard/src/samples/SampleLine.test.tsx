import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import { SampleLine, sampleText } from "./SampleLine";
import type { Sample } from "./samples";

const sample: Sample = {
  batchIndex: 3,
  id: 7369,
  label: "2",
  prediction: null,
  isRight: null,
  loss: 0.0786,
  rank: 31,
  magnitude: 0.4,
  isOutlier: false,
  broken: 0,
};

describe("SampleLine", () => {
  it("describes the focused sample in one line", () => {
    const html = renderToStaticMarkup(
      <SampleLine
        sample={sample}
        count={128}
        onOpen={() => undefined}
        onBreak={() => undefined}
        breakReason={null}
      />,
    );
    const text = html.replaceAll(/<[^>]+>/g, " ").replaceAll(/\s+/g, " ");
    expect(text).toContain("Sample 7,369 Label 2 Loss 0.0786 Rank 31 of 128 Full size Break on sample");
  });

  it("reads out the same, and leaves out what is not known", () => {
    expect(sampleText(sample)).toBe("Sample 7,369, label 2, loss 0.0786, rank 31");
    expect(sampleText({ ...sample, label: null, loss: null, rank: null })).toBe("Sample 7,369");
  });
});
