import { describe, expect, it } from "vitest";
import { panelState } from "./panelState";

const empty = (count: number) =>
  count === 0 ? ({ kind: "empty", title: "No files", text: "" } as const) : null;
const state = (data: number | null, error: string | Error | null) =>
  panelState({ data, error }, { what: "the files", empty });

describe("the state of a panel", () => {
  it("is loading before the first answer", () => {
    expect(state(null, null)).toEqual({ kind: "loading" });
  });

  it("says what could not be loaded", () => {
    const failed = { kind: "error", title: "Could not load the files", text: "gone" };
    expect(state(null, "gone")).toEqual(failed);
    expect(state(null, new Error("gone"))).toEqual(failed);
  });

  it("is empty where the data says so, and keeps data over a later error", () => {
    expect(state(0, null)).toMatchObject({ kind: "empty", title: "No files" });
    expect(state(3, "gone")).toEqual({ kind: "data" });
  });
});
