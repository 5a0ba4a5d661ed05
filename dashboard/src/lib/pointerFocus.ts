/** After a click the keys belong to the page again; after a key they stay with the button (design section 5). */

const BUTTON = "button, a[href], summary, [role=button]";
/** These hold focus by themselves and give it back when they close. */
const KEEPS = "dialog, [role=dialog], [role=menu], [role=listbox]";

/** The button that gives focus away when it is clicked; a key that presses it counts as a click of detail 0. */
export function releasedBy<T extends Pick<Element, "closest">>(
  detail: number,
  target: T,
): ReturnType<T["closest"]> | null {
  if (detail === 0 || target.closest(KEEPS) !== null) return null;
  return target.closest(BUTTON) as ReturnType<T["closest"]> | null;
}

/** Takes focus from clicked buttons before they act, so that a dialog does not give it back to them. */
export function releaseFocusAfterClicks(): () => void {
  const onClick = ({ detail, target }: MouseEvent) => {
    if (!(target instanceof Element)) return;
    const button = releasedBy(detail, target);
    if (button !== null && button === document.activeElement) (button as HTMLElement).blur();
  };
  window.addEventListener("click", onClick, true);
  return () => window.removeEventListener("click", onClick, true);
}
