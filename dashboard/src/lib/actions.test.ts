import { describe, expect, it, vi } from "vitest";
import { type Action, inOrder, registerActions, useActions } from "./actions";

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
    const listed = inOrder(useActions.getState().actions);
    expect(listed.map(({ title }) => title)).toEqual(["One again", "two"]);
    again();
    remove();
    expect(useActions.getState().actions).toEqual([]);
  });
});
