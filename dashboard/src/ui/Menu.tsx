import {
  cloneElement,
  type KeyboardEvent,
  type MouseEvent,
  type ReactElement,
  type ReactNode,
  useEffect,
  useRef,
  useState,
} from "react";
import { Icon, type IconName } from "./Icon";
import { KeyCap } from "./KeyCap";
import { controlOf, Layer } from "./Layer";
import { roveFocus } from "./roving";

export interface MenuItem {
  label: ReactNode;
  icon?: IconName;
  keys?: string;
  note?: ReactNode;
  checked?: boolean;
  danger?: boolean;
  disabledReason?: string | null;
  onSelect: () => void;
}

interface TriggerProps {
  onClick?: (event: MouseEvent<HTMLButtonElement>) => void;
  onKeyDown?: (event: KeyboardEvent<HTMLButtonElement>) => void;
  "aria-haspopup"?: "menu";
  "aria-expanded"?: boolean;
}

interface MenuProps {
  /** The button that opens it. */
  trigger: ReactElement<TriggerProps>;
  items: readonly (MenuItem | "line")[];
  align?: "start" | "end";
  heading?: string;
}

/** A list of verbs or choices under a button. */
export function Menu({ trigger, items, align = "end", heading }: MenuProps) {
  const anchor = useRef<HTMLSpanElement>(null);
  const [open, setOpen] = useState(false);
  // A menu that a click opened leaves the keys to the page, as any clicked button does.
  const byKeys = useRef(false);
  const close = () => {
    setOpen(false);
    if (byKeys.current) controlOf(anchor)?.focus();
  };
  const opener = cloneElement(trigger, {
    "aria-haspopup": "menu",
    "aria-expanded": open,
    onClick: (event: MouseEvent<HTMLButtonElement>) => {
      byKeys.current = event.detail === 0;
      setOpen(!open);
    },
    onKeyDown: (event: KeyboardEvent<HTMLButtonElement>) => {
      if (event.key !== "ArrowDown") return;
      event.preventDefault();
      byKeys.current = true;
      setOpen(true);
    },
  });
  return (
    <span ref={anchor} className="contents">
      {opener}
      {open && (
        <Layer anchor={anchor} align={align} onDismiss={close}>
          <MenuList items={items} heading={heading} close={close} />
        </Layer>
      )}
    </span>
  );
}

interface MenuListProps extends Pick<MenuProps, "items" | "heading"> {
  close: () => void;
}

function MenuList({ items, heading, close }: MenuListProps) {
  const list = useRef<HTMLDivElement>(null);
  // What comes or goes while it is open waits: an entry never moves under the pointer.
  const [first] = useState(items);
  const shown = items.length === first.length ? items : first;
  useEffect(() => list.current?.querySelector<HTMLElement>("[role^=menuitem]")?.focus(), []);
  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>) => {
    if (event.key === "Tab") close();
    else if (roveFocus(event, "[role^=menuitem]") === null) focusByLetter(event);
  };
  return (
    <div ref={list} role="menu" tabIndex={-1} className="min-w-44 p-1" onKeyDown={onKeyDown}>
      {heading && <div className="px-2 py-1 text-label text-t3">{heading}</div>}
      {shown.map((item, index) =>
        item === "line" ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have no name, and menus do not reorder
          <hr key={`line-${index}`} className="mx-2 my-1 border-line" />
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: labels may be elements, and menus do not reorder
          <MenuRow key={index} item={item} close={close} />
        ),
      )}
    </div>
  );
}

/** A letter leads to the next item that begins with it. */
function focusByLetter(event: KeyboardEvent<HTMLDivElement>): void {
  if (event.key.length !== 1 || event.key === " " || event.ctrlKey || event.metaKey) return;
  const items = [...event.currentTarget.querySelectorAll<HTMLElement>("[role^=menuitem]")];
  const now = items.indexOf(document.activeElement as HTMLElement);
  const letter = event.key.toLowerCase();
  const turned = [...items.slice(now + 1), ...items.slice(0, now + 1)];
  turned.find((item) => item.textContent?.trim().toLowerCase().startsWith(letter))?.focus();
}

function MenuRow({ item, close }: { item: MenuItem; close: () => void }) {
  const off = item.disabledReason != null;
  const ground = item.danger ? "text-bad focus:bg-bad-soft hover:bg-bad-soft" : "focus:bg-s2 hover:bg-s2";
  const kind =
    item.checked === undefined
      ? { role: "menuitem" }
      : { role: "menuitemcheckbox", "aria-checked": item.checked };
  const choose = () => {
    if (off) return;
    // Focus goes back first, so that what is chosen may move it on.
    close();
    item.onSelect();
  };
  return (
    <button
      type="button"
      {...kind}
      aria-disabled={off || undefined}
      tabIndex={-1}
      onClick={choose}
      className={`flex h-7 w-full items-center gap-2 rounded-control px-2 text-left whitespace-nowrap outline-none! ${off ? "text-dis" : ground}`}
    >
      {item.icon && <Icon name={item.icon} size={14} />}
      <span className="min-w-0 flex-1 truncate">{item.label}</span>
      {item.note && <span className="text-t3">{item.note}</span>}
      {off && <span className="text-t3">{item.disabledReason}</span>}
      {item.keys && <KeyCap keys={item.keys} />}
      {item.checked && <Icon name="check" size={14} className="text-accent" />}
    </button>
  );
}
