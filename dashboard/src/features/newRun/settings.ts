/** What is typed into the form of a recipe, read as typed settings. */
import type { Recipe, RecipeSetting, RecipeSettingValue } from "@/api/types";
import { formatCount, formatRate } from "@/lib/format";
import { parseNumber } from "@/ui/Field";

export type SettingValue = RecipeSettingValue;
/** What stands in the fields, by name of the setting; those left alone are missing. */
export type Typed = Readonly<Record<string, string | boolean>>;

export interface ReadSettings {
  /** Settings that differ from their defaults. */
  settings: Record<string, SettingValue>;
  /** What is wrong, by name. */
  problems: Record<string, string>;
}

/** A value as it stands in a field: lists separated by commas, nothing for none. */
export function writeSetting(value: SettingValue): string {
  if (value === null) return "";
  return Array.isArray(value) ? value.join(", ") : String(value);
}

export interface GroupOfSettings {
  /** Empty for the settings of a flat recipe. */
  name: string;
  /** The setting that chooses the option of the group. */
  choice: RecipeSetting | null;
  settings: RecipeSetting[];
}

/** The name of a setting without that of its group. */
export function shortName({ name, group }: RecipeSetting): string {
  const prefix = `${group.replaceAll("/", ".")}.`;
  return group !== "" && name.startsWith(prefix) ? name.slice(prefix.length) : name;
}

/** The settings of a recipe by group, in their order. */
export function groupSettings(settings: readonly RecipeSetting[]): GroupOfSettings[] {
  const groups = new Map<string, GroupOfSettings>();
  for (const setting of settings) {
    const name = setting.group;
    const group = groups.get(name) ?? { name, choice: null, settings: [] };
    groups.set(name, group);
    if (name !== "" && setting.name === name) group.choice = setting;
    else group.settings.push(setting);
  }
  return [...groups.values()];
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
  if (setting.kind === "text" || setting.kind === "file") return { value: typed };
  const items = typed.split(",").map((item) => item.trim());
  if (setting.kind === "words") return { value: items.filter((item) => item !== "") };
  if (setting.kind === "ints") {
    const numbers = items.map((item) => parseNumber(item, true));
    return numbers.every((number) => number !== null)
      ? { value: numbers }
      : { problem: "Enter whole numbers, separated by commas" };
  }
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
    // An empty field means the default, except where a text may be empty.
    if (text === undefined || (text === "" && (setting.kind !== "text" || setting.group !== ""))) continue;
    const result = readSetting(setting, text);
    if ("problem" in result) read.problems[setting.name] = result.problem;
    else if (writeSetting(result.value) !== writeSetting(setting.default))
      read.settings[setting.name] = result.value;
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
    value: writeSetting(changed[name] ?? usual),
    changed: name in changed,
  }));
}

/** Choices that are more or longer than this go into a menu: a row of the dialog has no space for them. */
const MAX_SEGMENTS = 4;
const MAX_SEGMENT_CHARACTERS = 32;

export function fitsSegments(choices: readonly string[]): boolean {
  return choices.length <= MAX_SEGMENTS && choices.join("").length <= MAX_SEGMENT_CHARACTERS;
}
