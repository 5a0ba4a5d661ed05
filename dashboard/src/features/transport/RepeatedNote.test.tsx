import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import type { StateOut } from "@/api/types";
import { repeatedNote } from "./RepeatedNote";
import { ProgressTrack } from "./TransportView";

const COUNTED = "exact over 3 repeated steps: ids 3, lr 3, loss 3";

describe("repeatedNote", () => {
  it("leaves out what was compared of steps that are exact, and nothing else", () => {
    expect(repeatedNote({ verdict: "exact", text: COUNTED })).toEqual({
      short: "Exact over 3 repeated steps",
      isBad: false,
    });
    const { short } = repeatedNote({ verdict: "exact", text: `${COUNTED}; later steps may differ: env` });
    expect(short).toBe("Exact over 3 repeated steps; later steps may differ: env");
  });

  it("says in red what differs, and quietly what is close or was not compared", () => {
    const differs = "step 41 gave 1.156, the record says 0.114: something that is in no state has moved";
    expect(repeatedNote({ verdict: "differs", text: differs })).toMatchObject({ isBad: true });
    expect(repeatedNote({ verdict: "differs", text: differs }).short).toContain("no state has moved");
    expect(repeatedNote({ verdict: "moved", text: "step 4 trained on other samples" }).isBad).toBe(true);
    expect(repeatedNote({ verdict: "close", text: "close" }).isBad).toBe(false);
    expect(repeatedNote({ verdict: null, text: "not compared: no record" })).toEqual({
      short: "Not compared: no record",
      isBad: false,
    });
  });

  it("stands above the track, from the state of the run", () => {
    const drawn = (repeated: unknown) => {
      const state = { state: "paused", step: 7, total_steps: 9, steps_per_s: null, repeated } as StateOut;
      return renderToStaticMarkup(<ProgressTrack state={state} stale={false} />);
    };
    expect(drawn(null)).not.toContain("repeated steps");
    expect(drawn({ verdict: "exact", text: COUNTED })).toContain("Exact over 3 repeated steps</span>");
    expect(drawn({ verdict: "moved", text: "step 4 moved" })).toContain("text-bad");
  });
});
