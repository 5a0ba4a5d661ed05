import { beforeEach, describe, expect, it } from "vitest";
import { useToasts } from "@/lib/toasts";
import { showEventToast } from "./eventToasts";

describe("showEventToast", () => {
  beforeEach(() => useToasts.setState({ toasts: [] }));

  it("says once which hook was switched off, and why", () => {
    const record = { moment: "on_intervention", kind: "hook_off", hook: "ranks", why: "ValueError: no rows" };
    showEventToast(record);
    showEventToast(record);
    expect(useToasts.getState().toasts).toMatchObject([
      {
        kind: "failed",
        title: "Hook ranks was switched off.",
        text: "It raised ValueError: no rows. Training continues.",
      },
    ]);
  });

  it("says which repeated step came out differently, and nothing if all are exact", () => {
    showEventToast({
      moment: "on_intervention",
      kind: "repeated_steps",
      exact: true,
      text: "exact over 3 repeated steps",
    });
    showEventToast({
      moment: "on_intervention",
      kind: "repeated_steps",
      exact: false,
      text: "step 4 gave 2",
    });
    expect(useToasts.getState().toasts).toMatchObject([
      { kind: "failed", title: "Repeated steps are not exact.", text: "step 4 gave 2." },
    ]);
  });

  it("says nothing of other events", () => {
    showEventToast({ moment: "on_intervention", kind: "command" });
    expect(useToasts.getState().toasts).toEqual([]);
  });
});
