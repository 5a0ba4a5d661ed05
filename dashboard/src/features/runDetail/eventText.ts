/** What a record of the facts says, as a sentence: nobody has to know the names of fields. */
import type { EventRecord } from "@/api/runs";
import { fromWire } from "@/api/types";
import { formatBytes, formatCount, formatDuration, formatRate, formatValue, plural } from "@/lib/format";
import { failureText } from "./figures";

export const number = (value: unknown): number | null => (typeof value === "number" ? value : null);
export const text = (value: unknown): string | null =>
  typeof value === "string" && value !== "" ? value : null;
export const join = (parts: readonly (string | null)[]): string =>
  parts.filter((part) => part !== null && part !== "").join(" · ");

type Fields = Readonly<Record<string, unknown>>;
const fieldsOf = (value: unknown): Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};

const WIRE = new Set<unknown>(["NaN", "Infinity", "-Infinity"]);
/** A measured number, also one that is not finite and travels as a word. */
export const measured = (value: unknown): number | null =>
  typeof value === "number" || WIRE.has(value) ? fromWire(value as number) : null;

/** A value of any kind, without brackets and quotes: 0.01, "adam", "3, 77, 1,200". */
export function valueText(value: unknown): string {
  if (typeof value === "number")
    return Number.isInteger(value) && Math.abs(value) < 1e7 ? formatCount(value) : formatRate(value);
  if (Array.isArray(value)) return value.map(valueText).join(", ");
  if (typeof value === "object" && value !== null)
    return Object.entries(value)
      .map(([name, one]) => `${words(name)} ${valueText(one)}`)
      .join(", ");
  return value === null || value === undefined ? "none" : String(value);
}

export const words = (name: string) => name.replace(/_s$/, "").replaceAll("_", " ");
const sentence = (name: string) => name.charAt(0).toUpperCase() + name.slice(1);
const steps = (n: unknown) => plural(number(n) ?? 1, "step");
const atStep = (step: unknown) => `step ${formatCount(number(step))}`;

/** "lr 0.05 → 0.01, momentum 0.9 → 3". */
export function changeText(old: unknown, now: unknown): string {
  const before = fieldsOf(old);
  return Object.entries(fieldsOf(now))
    .map(([name, value]) => {
      const from = before[name];
      return from === undefined
        ? `${words(name)} ${valueText(value)}`
        : `${words(name)} ${valueText(from)} → ${valueText(value)}`;
    })
    .join(", ");
}

/** Names come from files that anybody may have written: `constructor` must find nothing. */
type ByName<T> = Readonly<Record<string, T>>;
const own = <T>(table: ByName<T>, name: string): T | undefined =>
  Object.hasOwn(table, name) ? table[name] : undefined;

interface Said {
  title: string;
  text: string;
}

// -- commands --------------------------------------------------------------------------------------

const COMMANDS: ByName<{ title: string; what?: (payload: Fields) => string }> = {
  pause: {
    title: "Pause",
    what: ({ breakpoint }) => (number(breakpoint) === null ? "" : `by breakpoint ${breakpoint}`),
  },
  resume: { title: "Resume" },
  step: { title: "Step", what: ({ n }) => steps(n) },
  run_until: { title: "Run to", what: ({ step }) => atStep(step) },
  back: { title: "Back", what: ({ n, step }) => (number(step) === null ? steps(n) : `to ${atStep(step)}`) },
  stop: { title: "Stop" },
  set_hparams: { title: "Set hyperparameters", what: (payload) => changeText({}, payload) },
  save_checkpoint: { title: "Save checkpoint" },
  load_checkpoint: { title: "Load checkpoint", what: (payload) => changeText({}, payload) },
  reset_session: { title: "Reset" },
  test_now: { title: "Test" },
  determinism_health: { title: "Repeat steps", what: (payload) => steps(payload.steps) },
  influence: { title: "Influence", what: (payload) => changeText({}, payload) },
};

const REFUSED: ByName<string> = { refused: "refused", failed: "failed", canceled: "cancelled" };

function commandSaid({ command, payload, status, reason, duration_s, asked_step, step }: EventRecord): Said {
  const name = text(command) ?? "command";
  const known = own(COMMANDS, name);
  const what = known ? known.what?.(fieldsOf(payload)) : changeText({}, fieldsOf(payload));
  const refused = own(REFUSED, text(status) ?? "");
  const took = refused ? null : number(duration_s);
  const isLate = number(asked_step) !== null && asked_step !== step;
  return {
    title: known?.title ?? sentence(words(name)),
    text: join([
      what ?? "",
      refused ? `${refused}: ${text(reason) ?? "no reason was given"}` : text(reason),
      isLate ? `requested at ${atStep(asked_step)}` : null,
      took === null ? null : formatDuration(took),
    ]),
  };
}

// -- other interventions, by kind ------------------------------------------------------------------

const CHECKPOINT_CAUSES: ByName<string> = {
  asked: "on request",
  end: "at the end",
  epoch: "at the end of an epoch",
  every: "by its interval",
  hparams: "after a change of hyperparameters",
  pause: "at a pause",
  stop: "at the stop",
};

const REWIND_CAUSES: ByName<string> = {
  back: "by Back",
  load_checkpoint: "by loading a checkpoint",
  reset_session: "by Reset",
};

const reasonOf = ({ reason }: EventRecord) => text(reason) ?? "";

/** A condition with the value that was measured: "loss > 0.2, measured 1.966". */
function hitText({ condition, value, layer, note }: EventRecord): string {
  const found = measured(value);
  const isSaid = found !== null && String(condition).includes(` = ${found}`);
  return join([
    `${text(layer) === null ? "" : `${layer}: `}${text(condition) ?? ""}${found === null || isSaid ? "" : `, measured ${formatValue(found)}`}`,
    text(note),
  ]);
}

const KINDS: ByName<(record: EventRecord) => Said> = {
  command: commandSaid,
  breakpoint: (record) => ({ title: `Breakpoint ${record.breakpoint}`, text: hitText(record) }),
  mark: (record) => ({ title: `Mark of ${record.breakpoint}`, text: hitText(record) }),
  diagnosis: ({ title, cause }) => ({
    title: "Cause of the stop",
    text: [text(title), text(cause)].filter((part) => part !== null).join(" "),
  }),
  evidence: ({ step, timeline, bytes }) => {
    const later = number(timeline) ? ` of timeline ${Number(timeline) + 1}` : "";
    const size = number(bytes) === null ? "" : `, ${formatBytes(Number(bytes))}`;
    return { title: "Evidence", text: `stop at ${atStep(step)}${later} kept${size}` };
  },
  checkpoint: ({ path, cause, best, bytes, took_s }) => ({
    title: "Checkpoint",
    text: join([
      text(path),
      best === true ? "the best so far" : null,
      own(CHECKPOINT_CAUSES, text(cause) ?? "") ?? text(cause),
      number(bytes) === null ? null : formatBytes(Number(bytes)),
      number(took_s) === null ? null : `written in ${formatDuration(number(took_s))}`,
    ]),
  }),
  rewind: ({ from_step, step, cause, timeline }) => ({
    title: "Went back",
    text: join([
      `from ${atStep(from_step)} to ${atStep(step)}`,
      own(REWIND_CAUSES, text(cause) ?? "") ?? text(cause),
      number(timeline) === null ? null : `timeline ${Number(timeline) + 1} begins`,
    ]),
  }),
  resume: ({ step, epoch, path }) => ({
    title: "Resumed",
    text: join([
      `at ${atStep(step)}`,
      number(epoch) === null ? null : `in epoch ${formatCount(Number(epoch) + 1)}`,
      text(path) === null ? null : `from ${path}`,
    ]),
  }),
  change_allowed: ({ field, reason }) => ({
    title: "Change accepted",
    text: join([text(field), text(reason)]),
  }),
  began_again: (record) => ({ title: "Began again", text: reasonOf(record) }),
  hparams: ({ old, new: now }) => ({ title: "Hyperparameters", text: changeText(old, now) }),
  hparams_reapplied: ({ old, new: now }) => ({
    title: "Hyperparameters",
    text: join([changeText(old, now), "repeated after a kill"]),
  }),
  hparams_overridden: (record) => ({ title: "Value overwritten", text: reasonOf(record) }),
  not_kept: ({ reason }) => ({ title: "Not kept", text: `a kill now would lose the last change: ${reason}` }),
  repeated_steps: (record) => ({ title: "Repeated steps", text: text(record.text) ?? "" }),
  inexact: (record) => ({ title: "Not exact", text: reasonOf(record) }),
  untracked_tensors: (record) => ({ title: "Not declared", text: reasonOf(record) }),
  checkpoint_refused: (record) => ({ title: "Checkpoint refused", text: reasonOf(record) }),
  checkpoints_off: ({ reason }) => ({ title: "No checkpoints", text: `none are taken any more: ${reason}` }),
  park_limit: (record) => ({ title: "Pause is limited", text: reasonOf(record) }),
  hook_off: ({ hook, why }) => ({
    title: "Panel is off",
    text: `${hook} raised and is off, training went on: ${text(why) ?? ""}`,
  }),
  value_refused: ({ name, reason }) => ({ title: "Not recorded", text: `log(${name}=…): ${reason}` }),
  durability_lost: ({ reason }) => ({
    title: "Disk is slow",
    text: `the last records may not survive a power cut: ${reason}`,
  }),
  writing_resumed: ({ reason, rows_dropped }) => ({
    title: "Disk accepts again",
    text: join([
      text(reason),
      (number(rows_dropped) ?? 0) > 0 ? `${plural(Number(rows_dropped), "row")} could not be kept` : null,
    ]),
  }),
  torn_tail_cut: ({ file, bytes }) => ({
    title: "Repaired",
    text: `a kill had cut the last record of ${file} short; the rest of it, ${formatBytes(number(bytes) ?? 0)}, was removed`,
  }),
  damaged_record: ({ file, bytes, kept_in }) => ({
    title: "Damage",
    text: `${formatBytes(number(bytes) ?? 0)} in ${file} are no record; they are kept in ${kept_in}`,
  }),
  figure_failed: ({ family, times, error }) => ({
    title: "Figure failed",
    text: failureText(String(family), { times: number(times) ?? 1, error: String(error) }),
  }),
  batch_size_found: ({ batch_size }) => ({
    title: "Batch size",
    text: `${formatCount(number(batch_size))} fits into memory`,
  }),
  training: ({ number: count, modules }) => ({
    title: `Training ${formatCount(number(count))}`,
    text: join(["the script began another one", valueText(fieldsOf(modules))]),
  }),
  profile: ({ path }) => ({ title: "Profile", text: text(path) ?? "" }),
  phase: ({ phase, seconds }) => ({
    title: sentence(words(text(phase) ?? "phase")),
    text: number(seconds) === null ? "" : formatDuration(number(seconds)),
  }),
};

/** The words of an intervention; null for a kind that is not known here, as of a plug-in. */
export function interventionSaid(record: EventRecord): Said | null {
  const kind = text(record.kind) ?? (text(record.command) === null ? null : "command");
  return kind === null ? null : (own(KINDS, kind)?.(record) ?? null);
}

const CALLERS: ByName<string> = { system: "", cli: "terminal", python: "Python" };

/** Who requested it, as people say it; null for what the run did by itself. */
export function callerText(who: unknown): string | null {
  const name = text(who);
  return name === null ? null : (own(CALLERS, name) ?? name) || null;
}
