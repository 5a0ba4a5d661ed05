import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import type { StateOut } from "@/api/types";
import EndedStrip, { labelled } from "./EndedStrip";
import { type Control, TransportView, type TransportViewProps } from "./TransportView";

const state = {
  state: "paused",
  parked: true,
  step: 12_480,
  total_steps: 25_000,
  steps_per_s: null,
} as StateOut;
const free: Control = { onClick: () => undefined, busy: null, disabledReason: null };

function drawn(changes: Partial<TransportViewProps>): string {
  const props: TransportViewProps = {
    toggle: "resume",
    onToggle: free,
    onBack: free,
    onStep: free,
    onSteps: free,
    onRunTo: free,
    onStop: free,
    n: 10,
    onN: () => undefined,
    target: 13_000,
    onTarget: () => undefined,
    targetError: null,
    waitingFor: null,
    track: null,
    ...changes,
  };
  return renderToStaticMarkup(<TransportView {...props} />);
}

describe("TransportView", () => {
  it("offers to resume a parked run and to pause a running one", () => {
    expect(drawn({})).toContain("Resume");
    expect(drawn({ toggle: "pause" })).toContain("Pause");
  });

  it("keeps Step where it is while it cannot be used, and focusable", () => {
    const html = drawn({ onStep: { ...free, disabledReason: "Pause first" } });
    expect(html.match(/aria-disabled="true"/g)).toHaveLength(1);
    expect(html).not.toContain(" disabled=");
  });

  it("says beside the field why a step cannot be run to", () => {
    const html = drawn({ target: 12_000, targetError: "Already past step 12,000" });
    expect(html.match(/Already past step 12,000/g)).toHaveLength(1);
    expect(html).toContain('aria-invalid="true"');
  });

  it("is busy until the run has really parked", () => {
    const html = drawn({
      toggle: "pause",
      onToggle: { ...free, busy: "Pausing…" },
      waitingFor: "in validation, 40 of 79",
    });
    expect(html).toContain("Pausing…");
    expect(html).toContain("Waiting: in validation, 40 of 79");
  });

  it("gives way to how the run ended", () => {
    const ended = { ...state, state: "finished" } as const;
    const html = renderToStaticMarkup(<EndedStrip state={ended} checkpoints={[]} fact="" stale={false} />);
    expect(html).toContain("Finished at step 12,480");
    expect(html).not.toContain("<button");
  });

  it("labels checkpoints that stand apart, the best one in any case", () => {
    const at = (step: number, best = false) =>
      ({ name: String(step), step, timeline: 0, current: true, best, at: 0, bytes: 1 }) as const;
    const all = [at(6_000), at(12_000), at(12_400, true), at(18_000)];
    const steps = labelled(all, 25_000, 500).map(({ step }) => step);
    expect(steps.sort((a, b) => a - b)).toEqual([6_000, 12_400, 18_000]);
    const html = renderToStaticMarkup(
      <EndedStrip state={{ ...state, state: "killed" }} checkpoints={all} fact="4 kept" stale={false} />,
    );
    expect(html).toContain("Killed at step 12,480");
    expect(html).toContain("bg-ok-mark");
  });
});
