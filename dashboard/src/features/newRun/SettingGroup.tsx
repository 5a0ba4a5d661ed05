/** A group of a config tree: its option, and its settings while it is open. */
import { useState } from "react";
import type { RecipeSetting } from "@/api/types";
import { Button } from "@/ui";
import { Control, Line, SettingLine } from "./SettingLine";
import type { GroupOfSettings, Typed } from "./settings";

interface SettingGroupProps {
  group: GroupOfSettings;
  typed: Typed;
  problems: Readonly<Record<string, string>>;
  onType: (setting: RecipeSetting, value: string | boolean) => void;
}

export function SettingGroup({ group, typed, problems, onType }: SettingGroupProps) {
  const [opened, setOpened] = useState(false);
  const { name, choice, settings } = group;
  const line = (setting: RecipeSetting) => (
    <SettingLine
      key={setting.name}
      setting={setting}
      typed={typed[setting.name]}
      problem={problems[setting.name] ?? null}
      onType={(value) => onType(setting, value)}
    />
  );
  // A flat recipe has one group without a name.
  if (name === "") return settings.map(line);
  const changed = settings.filter((setting) => typed[setting.name] !== undefined).length;
  // A wrong value must not be hidden.
  const shown = opened || settings.some((setting) => setting.name in problems);
  return (
    <section aria-label={name} className="flex flex-col gap-2 border-b border-line pb-2 last:border-0">
      <Line label={name}>
        <div className="flex min-h-7 items-center gap-2">
          {choice !== null && (
            <Control
              setting={choice}
              typed={typed[choice.name]}
              problem={problems[choice.name] ?? null}
              onType={(value) => onType(choice, value)}
            />
          )}
          <Button
            look="ghost"
            className="ml-auto"
            aria-expanded={shown}
            aria-label={`Settings of ${name}`}
            onClick={() => setOpened(!shown)}
          >
            {shown ? "Hide settings" : changed > 0 ? `${changed} changed` : "Settings"}
          </Button>
        </div>
      </Line>
      {shown && settings.map(line)}
    </section>
  );
}
