/** What the table is grouped by, and which columns it has. */
import { useMemo, useState } from "react";
import { Button, Field, Icon, Menu, Popover } from "@/ui";
import { type Columns, columnTitles } from "./columns";
import { chipKey } from "./filter";

interface GroupMenuProps {
  columns: Columns;
  group: string;
  onGroup: (key: string) => void;
}

const OWN_GROUPS = ["state", "recipe", "host", "seed", "tags"];
const MAX_SETTINGS = 12;

export function GroupMenu({ columns, group, onGroup }: GroupMenuProps) {
  const item = (key: string) => ({
    label: chipKey(key),
    checked: group === key,
    onSelect: () => onGroup(key),
  });
  // A setting such as seed that every run has of its own is named once.
  const settings = columns.config.filter((key) => !OWN_GROUPS.includes(key.slice("config.".length)));
  return (
    <Menu
      align="start"
      heading="Group by"
      items={[
        { label: "No grouping", checked: group === "", onSelect: () => onGroup("") },
        "line",
        ...settings.slice(0, MAX_SETTINGS).map(item),
        "line",
        ...OWN_GROUPS.map(item),
      ]}
      trigger={
        <Button icon="layers">
          {group === "" ? "Group" : `Group: ${chipKey(group)}`}
          <Icon name="chevronDown" size={14} />
        </Button>
      }
    />
  );
}

interface ColumnsMenuProps {
  columns: Columns;
  onColumns: (keys: readonly string[] | null) => void;
}

/** A list to tick in; it stays open while columns come and go. */
export function ColumnsMenu({ columns, onColumns }: ColumnsMenuProps) {
  return (
    <Popover
      label="Columns"
      align="start"
      className="h-7 bg-s2 px-2 font-medium hover:bg-s3"
      button={
        <span aria-hidden="true" className="flex items-center gap-1.5">
          <Icon name="sliders" size={14} />
          Columns
        </span>
      }
    >
      <ColumnList columns={columns} onColumns={onColumns} />
    </Popover>
  );
}

function ColumnList({ columns, onColumns }: ColumnsMenuProps) {
  const [words, setWords] = useState("");
  const all = useMemo(() => [...columns.own, ...columns.config, ...columns.summary], [columns]);
  const titles = useMemo(() => columnTitles(all), [all]);
  const shown = new Set(columns.shown);
  const toggle = (key: string) =>
    onColumns(shown.has(key) ? columns.shown.filter((one) => one !== key) : [...columns.shown, key]);
  const matches = (key: string) => key.toLowerCase().includes(words.toLowerCase().trim());
  const parts = [
    { title: "Run", keys: columns.own },
    { title: "Settings, those that differ first", keys: columns.config },
    { title: "Last values", keys: columns.summary },
  ];
  return (
    <div className="flex w-64 flex-col gap-2">
      <Field small label="Find a column" placeholder="Find a column" value={words} onChange={setWords} />
      <div className="flex max-h-90 flex-col gap-2 overflow-y-auto">
        {parts.map(({ title, keys }) => {
          const matching = keys.filter(matches);
          if (matching.length === 0) return null;
          return (
            <fieldset key={title}>
              <legend className="text-label text-t3">{title}</legend>
              {matching.map((key) => (
                <label key={key} className="flex h-6 items-center gap-2 rounded-chip px-1 hover:bg-s2">
                  <input
                    type="checkbox"
                    checked={shown.has(key)}
                    onChange={() => toggle(key)}
                    className="accent-[var(--accent)]"
                  />
                  <span className="min-w-0 flex-1 truncate" title={key}>
                    {key.startsWith("config.") ? chipKey(key) : titles.get(key)}
                  </span>
                </label>
              ))}
            </fieldset>
          );
        })}
      </div>
      <Button small onClick={() => onColumns(null)}>
        Reset columns
      </Button>
    </div>
  );
}
