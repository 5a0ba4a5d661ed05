/** What is typed into the form of a recipe, read as typed settings. */
import type { Recipe, RecipeSetting } from "@/api/types";
import { formatCount, formatRate } from "@/lib/format";
import { parseNumber } from "@/ui/Field";

export type SettingValue = number | string | boolean;
/** What stands in the fields, by name of the setting; those left alone are missing. */
export type Typed = Readonly<Record<string, string | boolean>>;

export interface ReadSettings {
  /** Settings that differ from their defaults. */
  settings: Record<string, SettingValue>;
  /** What is wrong, by name. */
  problems: Record<string, string>;
}

/** The bounds of a number in words: "1 to 1,000", "at least 0"; nothing where it has none. */
export function rangeText({ kind, minimum, maximum }: RecipeSetting): string {
  const write = (value: number) => (kind === "int" ? formatCount(value) : formatRate(value));
  if (minimum !== null && maximum !== null) return `${write(minimum)} to ${write(maximum)}`;
  if (minimum !== null) return `at least ${write(minimum)}`;
  return maximum === null ? "" : `at most ${write(maximum)}`;
}

function outside(setting: RecipeSetting, value: number): boolean {
  const { minimum, maximum } = setting;
  return (minimum !== null && value < minimum) || (maximum !== null && value > maximum);
}

/** The value that was typed for one setting, or what is wrong with it. */
export function readSetting(
  setting: RecipeSetting,
  typed: string | boolean,
): { value: SettingValue } | { problem: string } {
  if (typeof typed === "boolean") return { value: typed };
  if (setting.kind === "choice")
    return setting.choices.includes(typed)
      ? { value: typed }
      : { problem: `One of ${setting.choices.join(", ")}` };
  if (setting.kind === "text") return { value: typed };
  const number = parseNumber(typed, setting.kind === "int");
  if (number === null || !Number.isFinite(number))
    return { problem: setting.kind === "int" ? "Enter a whole number" : "Enter a number" };
  return outside(setting, number) ? { problem: `Must be ${rangeText(setting)}` } : { value: number };
}

/** All settings of a form; what equals its default is left to the recipe. */
export function readSettings({ settings }: Pick<Recipe, "settings">, typed: Typed): ReadSettings {
  const read: ReadSettings = { settings: {}, problems: {} };
  for (const setting of settings) {
    const text = typed[setting.name];
    if (text === undefined || (text === "" && setting.kind !== "text")) continue;
    const result = readSetting(setting, text);
    if ("problem" in result) read.problems[setting.name] = result.problem;
    else if (result.value !== setting.default) read.settings[setting.name] = result.value;
  }
  return read;
}

/** Every setting as the run will have it, one `name: value` a line. */
export function preview(
  { settings }: Pick<Recipe, "settings">,
  changed: Readonly<Record<string, SettingValue>>,
): { name: string; value: string; changed: boolean }[] {
  return settings.map(({ name, default: usual }) => ({
    name,
    value: String(changed[name] ?? usual),
    changed: name in changed,
  }));
}
