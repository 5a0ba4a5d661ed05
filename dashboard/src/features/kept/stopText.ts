/** Stops, checkpoints and printed lines of an ended run, in words. */
import { fromWire, type KeptEvidence, type RunRow, type StateOut, type Stop } from "@/api/types";
import { asPrinted } from "@/lib/consoleText";
import { formatAge, formatBytes, formatCount, formatDuration, formatValue, plural } from "@/lib/format";

const CAUSES: Record<Stop["cause"], string> = {
  breakpoint: "breakpoint",
  pause: "paused",
  step: "single step",
  run_until: "run to",
  back: "back",
  hold: "held by midstep",
  finished: "end of an attempt",
  stopped: "stopped",
  exception: "error",
  other: "stop",
};

/** What led to a stop: "breakpoint 2", "page", "end of attempt 1". */
export function causeText({ cause, who, breakpoint, attempt }: Stop): string {
  if (cause === "breakpoint" && breakpoint !== null) return `breakpoint ${breakpoint.breakpoint}`;
  if (cause === "pause") return who ?? CAUSES.pause;
  if (cause === "finished" && attempt !== null) return `end of attempt ${attempt}`;
  return CAUSES[cause];
}

/** What was measured, or how long the run was paused: "z 4.6", "reached", "3 m". */
export function measureText({ cause, breakpoint, lasted_s }: Stop): string {
  if (cause !== "breakpoint" || breakpoint === null) {
    if (lasted_s === null) return "";
    return lasted_s < 60 ? formatDuration(lasted_s) : formatAge(lasted_s);
  }
  const value = fromWire(breakpoint.value);
  if (value === null || /^(step|every)\b/.test(breakpoint.condition)) return "reached";
  return breakpoint.condition.includes("z-score") ? `z ${value.toFixed(1)}` : formatValue(value, 3);
}

/** What of a stop can be shown: "batch and layers". */
export function keptOf(stop: Stop): string {
  const parts = [
    stop.batch_step === null ? null : "batch",
    stop.step_data.includes("layers") ? "layers" : null,
  ];
  const others = stop.step_data.filter((key) => key !== "layers").length;
  if (others > 0) parts.push(plural(others, "panel"));
  return listed(parts.filter((part) => part !== null));
}

function listed(words: readonly string[]): string {
  if (words.length < 2) return words[0] ?? "";
  return `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

/** The stop that the panels show: the chosen one, else what was kept last. */
export function shownStop(kept: KeptEvidence | undefined, chosen: string | null): Stop | null {
  const all = kept === undefined ? [] : [...kept.stops, ...(kept.end === null ? [] : [kept.end])];
  const id = chosen ?? kept?.shown;
  return all.find((stop) => stop.kept && stop.id === id) ?? null;
}

/** Beside the title of the batch: "64 of 256 samples, of step 12,480". */
export function batchFact(stop: Stop): string {
  const { samples, of_samples: all, batch_step } = stop;
  const part =
    samples !== null && all !== null && samples < all
      ? `first ${formatCount(samples)} of ${formatCount(all)} `
      : "";
  return `${part}of step ${formatCount((batch_step ?? stop.step - 1) + 1)}`;
}

export interface EndPill {
  tone: "neutral" | "bad";
  icon: "clock" | "close" | "killed" | "lost" | "stop";
  title: string;
  text: string;
  /** What the one action shows. */
  action: "files" | "traceback" | null;
}

/** Why it ended, and what is left of it. */
export function endPill(
  state: StateOut,
  kept: KeptEvidence | undefined,
  run: Pick<RunRow, "ended_at"> | undefined,
  now: number,
  canControl = true,
): EndPill | null {
  if (kept === undefined) return null;
  const things = keptThings(kept);
  const size = kept.bytes > 0 ? ` · ${formatBytes(kept.bytes)}` : "";
  const list = things.length > 0 ? `${things.join(", ")}${size}` : "";
  const last = lastCheckpoint(kept);
  const at = formatCount(state.step);
  if (state.state === "failed") {
    const [type, words] = splitError(state.reason ?? "an error");
    const text = [words, last].filter((part) => part !== "").join(" · ");
    // Who may only look gets neither printed text nor tracebacks.
    const action = canControl ? "traceback" : "files";
    return { tone: "bad", icon: "close", title: `${type} at step ${at}`, text, action };
  }
  if (state.state === "killed" || state.state === "lost") {
    const killed = state.state === "killed";
    const why = killed ? "it left no end record, as after SIGKILL or a lack of memory" : (state.reason ?? "");
    const text = [why, last, list && `kept: ${list}`].filter((part) => part !== "").join(" · ");
    const title = `${killed ? "Killed" : "Lost"} at step ${at}`;
    return { tone: "bad", icon: killed ? "killed" : "lost", title, text, action: "files" };
  }
  const gone = run?.ended_at == null ? "" : ` · process gone ${ageText(now - run.ended_at)}`;
  if (list === "") {
    const text = "a pause, a breakpoint, an error and the end keep samples, layers and the console";
    return { tone: "neutral", icon: "clock", title: "Nothing was kept", text: text + gone, action: null };
  }
  const stopped =
    state.state === "stopped" && state.reason ? `Stopped by ${state.reason}, kept` : "Kept at the end";
  return { tone: "neutral", icon: "clock", title: stopped, text: list + gone, action: "files" };
}

function ageText(seconds: number): string {
  const age = formatAge(seconds);
  return age === "now" ? "now" : `${age} ago`;
}

function keptThings({ end, stops, console_bytes }: KeptEvidence): string[] {
  const here = stops.filter(({ kept }) => kept).length;
  const things: string[] = [];
  if (end !== null && end.batch_step !== null) things.push("last batch");
  if (end?.step_data.includes("layers")) things.push("layers");
  if (here > 0) things.push(plural(here, "stop"));
  if (console_bytes > 0) things.push("console");
  return things;
}

function lastCheckpoint({ checkpoints }: KeptEvidence): string {
  const last = checkpoints.filter(({ current }) => current).at(-1);
  return last === undefined ? "no checkpoint" : `last checkpoint ${formatCount(last.step)}`;
}

/** "ValueError: bad shape" → its type and its words. */
export function splitError(reason: string): [string, string] {
  const line = reason.split("\n", 1)[0] ?? "";
  const match = /^([\w.]+)(?:: (.*))?$/s.exec(line);
  if (match === null) return ["Failed", line];
  return [match[1]?.split(".").at(-1) ?? "Failed", match[2] ?? ""];
}

export interface PrintedLine {
  /** Its number in all that was printed; null where that is not known. */
  number: number | null;
  text: string;
  tone: "plain" | "warn" | "bad";
}

const WARNING = /\b[A-Za-z]*Warning\b|\bWARN(ING)?\b/;
const TRACEBACK = "Traceback (most recent call last):";

/** The lines of a text, with warnings and tracebacks told apart from the rest. */
export function printedLines(text: string, first: number | null): PrintedLine[] {
  const lines = asPrinted(text).split("\n");
  if (lines.at(-1) === "") lines.pop();
  let tone: PrintedLine["tone"] = "plain";
  return lines.map((line, index) => {
    tone = toneOf(line, tone);
    const shown = tone;
    // The line without indentation after the frames names the error, and is the last of a traceback.
    if (tone === "bad" && !line.startsWith(TRACEBACK) && /^\S/.test(line)) tone = "plain";
    return { number: first === null ? null : first + index, text: line, tone: shown };
  });
}

function toneOf(line: string, before: PrintedLine["tone"]): PrintedLine["tone"] {
  if (line.startsWith(TRACEBACK)) return "bad";
  if (before === "bad") return "bad";
  if (WARNING.test(line)) return "warn";
  // What belongs to a warning is indented.
  return before === "warn" && /^\s+\S/.test(line) ? "warn" : "plain";
}
