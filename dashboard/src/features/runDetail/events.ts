/** Records of the facts in words. */
import type { EventRecord } from "@/api/runs";
import { formatBytes, formatCount, formatDuration, formatValue } from "@/lib/format";

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

const TITLES: Record<string, string> = {
  on_start: "Started",
  on_epoch_end: "Epoch",
  on_validation_end: "Validation",
  on_test_end: "Test",
  on_train_end: "Ended",
  on_exception: "Exception",
};

const number = (value: unknown): number | null => (typeof value === "number" ? value : null);
const text = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);

/** What is in every record, or told elsewhere on the line. */
const TOLD = new Set([
  ...["schema_version", "seq", "attempt", "rank", "wall", "mono", "moment", "run_id", "timeline", "crc"],
  ...["step", "epoch", "who", "kind", "command", "asked_step", "command_id", "id", "split"],
]);

export function eventLine(record: EventRecord): EventLine {
  return {
    seq: record.seq,
    at: number(record.wall),
    step: number(record.step),
    title: titleOf(record),
    text:
      record.kind === "repeated_steps" ? String(record.text) : (TEXTS[record.moment] ?? detailText)(record),
    who: text(record.who),
    tone: isBad(record) ? "bad" : isIntervention(record) ? "intervention" : "plain",
  };
}

/** An error, also of a plot family, or repeated steps that came out differently. */
const isBad = ({ moment, kind, exact }: EventRecord) =>
  moment === "on_exception" || kind === "figure_failed" || (kind === "repeated_steps" && exact === false);

/** What the loop does by itself, such as saving a checkpoint, is no intervention of anybody. */
const isIntervention = ({ moment, who }: EventRecord) => moment === "on_intervention" && who !== "system";

/** What kind of record it is; one that the loop has a word of its own for is called by that. */
function titleOf({ moment, command, kind }: EventRecord): string {
  const known = TITLES[moment];
  if (known !== undefined) return known;
  const words = (text(command) ?? text(kind) ?? moment.replace(/^on_/, "")).replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
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
  on_train_end: ({ state, outcome, reason, total_time_s }) =>
    join([
      text(state) ?? text(outcome),
      text(reason),
      number(total_time_s) === null ? null : formatDuration(number(total_time_s)),
    ]),
  on_step: (record) => lossesText(record),
  on_exception: ({ error, exception, message, type }) =>
    join([text(type), text(error) ?? text(exception), text(message)]),
};

function lossesText({ epoch, train_loss, val_loss, test_loss, epoch_time_s, metrics }: EventRecord): string {
  const measured = typeof metrics === "object" && metrics !== null ? Object.entries(metrics) : [];
  return join([
    number(epoch) === null ? null : `epoch ${formatCount(Number(epoch) + 1)}`,
    named("train", train_loss),
    named("validation", val_loss),
    named("test", test_loss),
    ...measured.slice(0, 4).map(([name, value]) => named(name, value)),
    number(epoch_time_s) === null ? null : formatDuration(number(epoch_time_s)),
  ]);
}

function named(name: string, value: unknown): string | null {
  return number(value) === null ? null : `${name} ${formatValue(number(value))}`;
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
    const name = key.replace(/_s$/, "").replaceAll("_", " ");
    return [value === true ? name : `${name} ${plain(key, value)}`];
  });
  return join([late, ...others]);
}

function plain(key: string, value: unknown): string {
  if (typeof value === "number") {
    if (key === "bytes") return formatBytes(value);
    return key.endsWith("_s") ? formatDuration(value) : String(Number(value.toPrecision(6)));
  }
  return typeof value === "string" ? value : JSON.stringify(value);
}

const join = (parts: readonly (string | null)[]): string => parts.filter((part) => part !== null).join(" · ");
