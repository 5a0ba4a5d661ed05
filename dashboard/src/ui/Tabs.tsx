import { roveFocus } from "./roving";

export interface Tab<T extends string> {
  value: T;
  label: string;
  count?: number;
}

interface TabsProps<T extends string> {
  label: string;
  value: T;
  tabs: readonly Tab<T>[];
  onChange: (value: T) => void;
}

/** The tab row of a page. */
export function Tabs<T extends string>({ label, value, tabs, onChange }: TabsProps<T>) {
  return (
    <div
      role="tablist"
      aria-label={label}
      className="flex h-10 items-stretch gap-5"
      onKeyDown={(event) => {
        const index = roveFocus(event, "[role=tab]");
        const tab = index === null ? undefined : tabs[index];
        if (tab) onChange(tab.value);
      }}
    >
      {tabs.map((tab) => {
        const on = tab.value === value;
        return (
          <button
            key={tab.value}
            type="button"
            role="tab"
            id={`tab-${tab.value}`}
            aria-selected={on}
            aria-controls={`tabpanel-${tab.value}`}
            tabIndex={on ? 0 : -1}
            onClick={() => onChange(tab.value)}
            className={`relative flex items-center gap-1 text-bar transition-colors ${on ? "font-semibold text-text" : "font-medium text-t2 hover:text-text"}`}
          >
            {tab.label}
            {tab.count !== undefined && <span className="font-normal text-t3">{tab.count}</span>}
            {on && <span className="absolute inset-x-0 bottom-1 h-0.5 rounded-full bg-accent" />}
          </button>
        );
      })}
    </div>
  );
}
