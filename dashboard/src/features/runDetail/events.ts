/** Records of the facts in words. */
import type { EventRecord } from "@/api/runs";
import { formatBytes, formatCount, formatDuration, formatValue } from "@/lib/format";
import { callerText, interventionSaid, join, measured, number, text, valueText, words } from "./eventText";

export interface EventLine {
  seq: number;
  /** Seconds since 1970; null where it is not known. */
  at: number | null;
  step: number | null;
  /** What happened, in one or two words. */
  title: string;
  text: string;
  /** Who requested it; null for what the loop did by itself. */
  who: string | null;
  tone: "plain" | "intervention" | "bad";
}

const TITLES = new Map([
  ["on_start", "Started"],
  ["on_epoch_end", "Epoch"],
  ["on_validation_end", "Validation"],
  ["on_test_end", "Test"],
  ["on_train_end", "Ended"],
  ["on_exception", "Exception"],
]);

/** What is in every record, or told elsewhere on the line. */
const TOLD = new Set([
  ...["schema_version", "seq", "attempt", "rank", "wall", "mono", "moment", "run_id", "timeline", "crc"],
  ...["step", "epoch", "who", "kind", "command", "asked_step", "command_id", "id", "split"],
]);

export function eventLine(record: EventRecord): EventLine {
  const said = record.moment === "on_intervention" ? interventionSaid(record) : null;
  return {
    seq: record.seq,
    at: number(record.wall),
    step: number(record.step),
    title: said?.title ?? titleOf(record),
    text: said?.text ?? (TEXTS[record.moment] ?? detailText)(record),
    who: callerText(record.who),
    tone: isBad(record) ? "bad" : isIntervention(record) ? "intervention" : "plain",
  };
}

const BAD_KINDS = new Set<unknown>(["checkpoints_off", "damaged_record", "figure_failed", "hook_off"]);

/** An error, a command that failed, or repeated steps that came out differently. */
const isBad = ({ moment, kind, exact, status }: EventRecord) =>
  moment === "on_exception" ||
  BAD_KINDS.has(kind) ||
  status === "failed" ||
  (kind === "repeated_steps" && exact === false);

/** What the loop does by itself, such as saving a checkpoint, is no intervention of anybody. */
const isIntervention = ({ moment, who }: EventRecord) => moment === "on_intervention" && who !== "system";

/** What kind of record it is; one that the loop has a word of its own for is called by that. */
function titleOf({ moment, command, kind }: EventRecord): string {
  const known = TITLES.get(moment);
  if (known !== undefined) return known;
  const name = words(text(command) ?? text(kind) ?? moment.replace(/^on_/, ""));
  return name.charAt(0).toUpperCase() + name.slice(1);
}

const TEXTS: Record<string, (record: EventRecord) => string> = {
  on_start: ({ attempt, device, seed }) =>
    join([
      number(attempt) !== null && Number(attempt) > 1 ? `attempt ${attempt}` : null,
      text(device),
      number(seed) === null ? null : `seed ${seed}`,
    ]),
  on_epoch_end: (record) => lossesText(record),
  on_validation_end: (record) => lossesText(record),
  on_test_end: (record) => lossesText(record),
  on_train_end: ({ status, state, outcome, reason, total_time_s }) =>
    join([
      text(status) ?? text(state) ?? text(outcome),
      text(reason),
      number(total_time_s) === null ? null : formatDuration(number(total_time_s)),
    ]),
  on_step: (record) => lossesText(record),
  on_exception: ({ error, exception, message, type }) =>
    join([text(type), text(error) ?? text(exception), text(message)]),
};

function lossesText({ epoch, train_loss, val_loss, test_loss, epoch_time_s, metrics }: EventRecord): string {
  const others = typeof metrics === "object" && metrics !== null ? Object.entries(metrics) : [];
  return join([
    number(epoch) === null ? null : `epoch ${formatCount(Number(epoch) + 1)}`,
    named("train", train_loss),
    named("validation", val_loss),
    named("test", test_loss),
    ...others.slice(0, 4).map(([name, value]) => named(name, value)),
    number(epoch_time_s) === null ? null : formatDuration(number(epoch_time_s)),
  ]);
}

function named(name: string, value: unknown): string | null {
  return measured(value) === null ? null : `${name} ${formatValue(measured(value))}`;
}

/** Whatever else a record says, short. */
function detailText(record: EventRecord): string {
  const requestedStep = number(record.asked_step);
  const late =
    requestedStep !== null && requestedStep !== record.step
      ? `requested at step ${formatCount(requestedStep)}`
      : null;
  const others = Object.entries(record).flatMap(([key, value]) => {
    if (TOLD.has(key) || value === null || value === undefined || value === "" || value === false) return [];
    return [value === true ? words(key) : `${words(key)} ${plain(key, value)}`];
  });
  return join([late, ...others]);
}

function plain(key: string, value: unknown): string {
  if (typeof value !== "number") return valueText(value);
  if (key === "bytes") return formatBytes(value);
  return key.endsWith("_s") ? formatDuration(value) : valueText(value);
}
