/** What the list of many runs and the page of one of them say on the wire, by the names the page uses. */
import type { components } from "./types.gen";

type Schemas = components["schemas"];

/** One run of the list, live or ended. */
export type RunRow = Schemas["RunOut"];
export type RunDetail = Schemas["RunDetail"];
export type RunListing = Schemas["RunList"];
/** States of live runs, and those that only a list can tell of. */
export type ListedState = RunRow["state"];
/** A setting of a run, with dots between the levels of its key. */
export type ConfigValue = RunRow["config"][string];
/** A number on the wire, where NaN and the infinities are words. */
export type WireValue = RunRow["summary"][string];

/** What the stream of the run list says; a server of one run greets with that run instead. */
export type RunsMessage = Schemas["RunsMessage"];
export type ListMessage = RunsMessage | { type: "ping" } | { type: "hello" };

export type RunFile = Schemas["FileOut"];
export type FileKind = RunFile["kind"];
export type RunFiles = Schemas["FilesOut"];
export type ConsolePart = Schemas["ConsoleOut"];
export type TimelineOut = Schemas["TimelineOut"];
export type LineageOut = Schemas["LineageOut"];
export type Removed = Schemas["DeletedOut"];
export type RecipeSetting = Schemas["SettingOut"];
export type Recipe = Schemas["RecipeOut"];
export type RecipeList = Schemas["RecipeList"];

/** Asking the loop, then the process, then nobody. */
export type EndWay = "stop" | Schemas["EndIn"]["how"];
