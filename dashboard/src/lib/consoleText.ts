/** What a process printed, kept to its end: parts arrive by their place in bytes. */

export const MAX_CHARACTERS = 400_000;

export interface ConsoleText {
  text: string;
  /** Where to ask on from, in bytes. */
  end: number;
  /** Whether what stood before is no longer here. */
  cut: boolean;
}

export const EMPTY_CONSOLE: ConsoleText = { text: "", end: 0, cut: false };

/** The text with one more part; a part that does not follow begins anew, as after another attempt. */
export function withPart(
  before: ConsoleText,
  part: { text: string; start: number; end: number },
): ConsoleText {
  const follows = part.start === before.end && before.end > 0;
  const whole = follows ? before.text + part.text : part.text;
  const kept = whole.slice(-MAX_CHARACTERS);
  const cut = kept.length < whole.length || (follows ? before.cut : part.start > 0);
  return { text: kept, end: part.end, cut };
}

/** A progress bar writes over its line; of such a line only what was left of it counts. */
export function asPrinted(text: string): string {
  return text
    .replaceAll("\r\n", "\n")
    .split("\n")
    .map((line) => (line.includes("\r") ? lastWritten(line) : line))
    .join("\n")
    .replaceAll(ESCAPES, "");
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: terminal colours begin with one
const ESCAPES = /\u001b\[[0-9;?]*[A-Za-z]/g;

function lastWritten(line: string): string {
  return line.split("\r").findLast((part) => part !== "") ?? "";
}
