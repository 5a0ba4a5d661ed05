import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import type { BreakpointOut } from "@/api/types";
import { BreakpointsView } from "./BreakpointsView";

const breakpoint = (id: number, words: string, changes: Partial<BreakpointOut> = {}): BreakpointOut => ({
  id,
  condition: { kind: "loss_nonfinite" },
  words,
  enabled: true,
  action: "pause",
  cost_s: null,
  hits: 0,
  hit_steps: [],
  window: null,
  mean: null,
  std: null,
  costs_sync: false,
  missing: [],
  ...changes,
});

function drawn(
  breakpoints: BreakpointOut[],
  stoppedBy: number | null,
  disabledReason: string | null = null,
): string {
  const nothing = () => undefined;
  return renderToStaticMarkup(
    <BreakpointsView
      {...{ breakpoints, stoppedBy, disabledReason }}
      onAdd={nothing}
      onSwitch={nothing}
      onRemove={nothing}
      stale={null}
    />,
  );
}

describe("BreakpointsView", () => {
  it("lists switch, id, words and hits, and marks the one that stopped the run", () => {
    const html = drawn(
      [breakpoint(1, "step = 12,156", { hits: 1 }), breakpoint(2, "loss z-score &gt; 4", { hits: 2 })],
      2,
    );
    expect(html.match(/role="switch"/g)).toHaveLength(2);
    expect(html).toContain("1 hit<");
    expect(html).toContain("2 hits");
    expect(html.match(/aria-current="true"/g)).toHaveLength(1);
  });

  it("says which scalar was never logged in place of its hits", () => {
    const html = drawn([breakpoint(1, "lss > 2", { missing: ["lss"] })], null);
    expect(html).toContain("lss is not logged");
    expect(html).not.toContain("0 hits");
    expect(drawn([breakpoint(1, "a > b", { missing: ["a", "b"] })], null)).toContain(
      "2 names are not logged",
    );
    expect(drawn([breakpoint(1, "a > 2 or b > 2", { hits: 3, missing: ["b"] })], null)).toContain("3 hits");
  });

  it("says what to do when there is none", () => {
    expect(drawn([], null)).toContain("No breakpoints yet. Add one to pause the run on a condition.");
  });

  it("keeps its controls in place but off while nothing can be commanded", () => {
    const html = drawn([breakpoint(1, "step = 5")], null, "This link is view-only");
    expect(html.match(/aria-disabled="true"/g)).toHaveLength(3);
  });
});
