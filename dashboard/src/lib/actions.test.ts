import { describe, expect, it, vi } from "vitest";
import { type Action, inOrder, registerActions, runAction, useActions } from "./actions";

const action = (id: string, more: Partial<Action> = {}): Action => ({
  id,
  title: id,
  group: "View",
  run: vi.fn(),
  ...more,
});

describe("the registry of actions", () => {
  it("keeps its order when an action is registered anew", () => {
    const remove = registerActions([action("one"), action("two")]);
    const again = registerActions([action("one", { title: "One again" })]);
    const found = inOrder(useActions.getState().actions);
    expect(found.map(({ title }) => title)).toEqual(["One again", "two"]);
    again();
    remove();
    expect(useActions.getState().actions).toEqual([]);
  });

  it("runs the latest one, and none that is disabled", () => {
    const first = action("go");
    const second = action("go");
    const remove = registerActions([first, second, action("off", { disabledReason: "Pause first" })]);
    expect([runAction("go"), runAction("off"), runAction("missing")]).toEqual([true, false, false]);
    expect(second.run).toHaveBeenCalledOnce();
    expect(first.run).not.toHaveBeenCalled();
    remove();
  });
});
