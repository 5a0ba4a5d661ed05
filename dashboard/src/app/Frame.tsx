import type { ReactNode } from "react";
import { useAction } from "@/lib/actions";
import { type Tab, Tabs } from "@/ui";

/** The line under the top bar: what can be done on this page, 52 px. */
export function Strip({ children }: { children: ReactNode }) {
  return (
    <div className="flex min-h-13 shrink-0 flex-wrap items-center gap-2 border-b border-line bg-surface px-4 max-[899px]:py-2">
      {children}
    </div>
  );
}

interface TabRowProps<T extends string> {
  label: string;
  value: T;
  tabs: readonly Tab<T>[];
  onChange: (value: T) => void;
  /** One pill on the right: why it stopped, staleness, or the selection with its actions; never two. */
  pill?: ReactNode;
}

/** Tabs on the left, one pill on the right, 40 px. [ and ] walk through the tabs. */
export function TabRow<T extends string>({ label, value, tabs, onChange, pill }: TabRowProps<T>) {
  const walk = (by: number) => {
    const index = tabs.findIndex((tab) => tab.value === value);
    const next = tabs[(index + by + tabs.length) % tabs.length];
    if (next) onChange(next.value);
  };
  useAction({ id: "tab-previous", title: "Previous tab", group: "View", keys: "[", run: () => walk(-1) });
  useAction({ id: "tab-next", title: "Next tab", group: "View", keys: "]", run: () => walk(1) });
  return (
    <div className="flex min-h-10 shrink-0 flex-wrap items-center gap-x-6 pr-2 pl-4">
      <Tabs label={label} value={value} tabs={tabs} onChange={onChange} />
      <div className="ml-auto flex min-w-0 flex-1 items-center justify-end max-[719px]:basis-full max-[719px]:justify-start max-[719px]:pb-2">
        {pill}
      </div>
    </div>
  );
}

type PillTone = "warn" | "bad" | "accent" | "neutral";

const PILL_TONES: Record<PillTone, string> = {
  warn: "bg-warn-soft text-warn",
  bad: "bg-bad-soft text-bad",
  accent: "bg-accent-soft text-accent",
  neutral: "bg-s2 text-t2",
};

interface PillProps {
  tone: PillTone;
  glyph: ReactNode;
  title: string;
  text?: ReactNode;
  action?: { label: string; run: () => void };
  /** In place of an action: something that opens under the pill. */
  more?: ReactNode;
}

/** A reason and one action. */
export function Pill({ tone, glyph, title, text, action, more }: PillProps) {
  return (
    <div
      role="status"
      className={`flex min-h-7 min-w-0 items-center gap-2 max-[719px]:py-1 max-[559px]:flex-wrap rounded-control pl-2.5 ${action || more ? "pr-1" : "pr-2.5"} ${PILL_TONES[tone]}`}
    >
      {glyph}
      <span className="font-semibold whitespace-nowrap">{title}</span>
      {text && (
        // What one line does not hold goes on in a second one; beyond that it can be read under the pointer.
        <span
          className="line-clamp-2 min-w-0 leading-3.5 wrap-anywhere"
          title={typeof text === "string" ? text : undefined}
        >
          {text}
        </span>
      )}
      {action && (
        <button
          type="button"
          onClick={action.run}
          className="h-5 shrink-0 rounded-chip bg-current/10 px-2 font-medium transition-colors hover:bg-current/15"
        >
          <span>{action.label}</span>
        </button>
      )}
      {more}
    </div>
  );
}

/** The panels' area: the page itself never scrolls at 1280 × 720, below 1200 px columns stack and it does. In a
 * low window, as at a zoom of 200 %, bars and panels scroll together. */
export function PanelArea({
  children,
  className = "",
  tab,
}: {
  children: ReactNode;
  className?: string;
  tab?: string;
}) {
  return (
    <main
      id={tab ? `tabpanel-${tab}` : undefined}
      role={tab ? "tabpanel" : undefined}
      aria-labelledby={tab ? `tab-${tab}` : undefined}
      className={`min-h-0 flex-1 overflow-auto px-2 pb-2 low:grid low:min-h-105 low:flex-none low:overflow-visible ${className}`}
    >
      {children}
    </main>
  );
}
