import { useEffect } from "react";
import { type Action, useActions } from "@/lib/actions";
import { useDialog } from "@/lib/dialogs";
import { KeyChords, type KeyPress, nameOfKey, ownerOf, pageTakes } from "@/lib/keys";
import { releaseFocusAfterClicks } from "@/lib/pointerFocus";
import { usePreferences } from "@/lib/preferences";

function actionFor(keys: string): Action | undefined {
  return useActions.getState().actions.findLast((action) => action.keys === keys);
}

function pressOf(event: KeyboardEvent): KeyPress {
  const { key, ctrlKey, metaKey, altKey, shiftKey } = event;
  return { key, ctrlKey, metaKey, altKey, shiftKey, altGraph: event.getModifierState("AltGraph") };
}

/** Single keys and combinations for the whole page; every one of them is an action of the registry. */
export function useKeyboard(): void {
  useEffect(releaseFocusAfterClicks, []);
  useEffect(() => {
    const chords = new KeyChords();
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.isComposing) return;
      // A dialog that is still being fetched gets no keys yet, but the page gets none of its keys either.
      if (useDialog.getState().open !== null) return;
      const name = nameOfKey(pressOf(event));
      if (name === null) return;
      if (!pageTakes(name, ownerOf(document.activeElement), usePreferences.getState().singleKeys)) return;
      const keys = chords.press(name, event.timeStamp);
      const action = keys === null ? undefined : actionFor(keys);
      if (action === undefined) return;
      event.preventDefault();
      // A key held down repeats: one press is one command.
      if (action.disabledReason == null && !event.repeat) action.run();
    };
    window.addEventListener("keydown", onKeyDown);
    return () => window.removeEventListener("keydown", onKeyDown);
  }, []);
}
