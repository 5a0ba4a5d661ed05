import { describe, expect, it } from "vitest";
import { connectionStatus } from "./connection";

describe("connectionStatus", () => {
  it.each([
    ["open", 0, true, false, "live"],
    ["open", 1, false, false, "view only"],
    ["open", 2, true, false, "stale"],
    ["open", 12, true, false, "not responding"],
    ["lost", 0, true, false, "reconnecting"],
    ["lost", 12, true, false, "not responding"],
    ["lost", 12, true, true, "closed"],
    ["connecting", 0, true, false, "connecting"],
    ["denied", 0, true, false, "denied"],
  ] as const)("%s link, %s s old, may control %s, ended %s → %s", (link, ageS, canControl, ended, status) => {
    expect(connectionStatus(link, ageS, canControl, ended)).toBe(status);
  });
});
