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

  it("says nothing of other events", () => {
    showEventToast({ moment: "on_intervention", kind: "command" });
    expect(useToasts.getState().toasts).toEqual([]);
  });
});
