/** What prompts are called where room is short: the words in which they differ. */
import type { InfluenceData } from "./influenceData";

/** Characters of a name at most. */
const LONGEST = 28;
/** Characters that a margin of the map shows: names must differ in them. */
const SEEN = 10;
/** Characters to go back at most, so that a name begins with a whole word. */
const BACK = 5;
/** Others that a prompt is compared with at most. */
const COMPARED = 32;

/** A name for each prompt: itself where it is short, else what its template leaves of it. */
export function namesOf(prompts: Iterable<string>): ReadonlyMap<string, string> {
  const distinct = [...new Set(prompts)];
  const names = new Map<string, string>();
  const long = distinct.filter((prompt) => {
    const line = oneLine(prompt);
    if (line.length <= LONGEST) names.set(prompt, line);
    return line.length > LONGEST;
  });
  const own = long.map((prompt): Own => {
    const others = sample(long).filter((other) => other !== prompt);
    if (others.length === 0) return { prompt, text: lastSentence(prompt) };
    return { prompt, text: oneLine(prompt.slice(...ownPart(prompt, others))) || oneLine(prompt) };
  });
  for (const [prompt, name] of shortNames(unlike(own), 0)) names.set(prompt, name);
  return names;
}

/** Where cutting left the same of different prompts, they stand whole. */
function unlike(own: readonly Own[]): Own[] {
  const counts = new Map<string, number>();
  for (const { text } of own) counts.set(text, (counts.get(text) ?? 0) + 1);
  return own.map(({ prompt, text }) => ({
    prompt,
    text: (counts.get(text) ?? 0) > 1 ? oneLine(prompt) : text,
  }));
}

/** Of the update and the evaluated batch together, so that one prompt alone is told by the others. */
export function promptNames({ result, batch }: InfluenceData): ReadonlyMap<string, string> {
  return namesOf([...result.update, ...batch.sequences].map(({ prompt }) => prompt));
}

interface Own {
  prompt: string;
  /** Without its template. */
  text: string;
}

/** Names from `start` on; those that would look alike begin where they differ. */
function shortNames(group: readonly Own[], start: number): [string, string][] {
  const alike = new Map<string, Own[]>();
  for (const one of group) {
    const key = one.text.slice(start, start + SEEN);
    alike.set(key, [...(alike.get(key) ?? []), one]);
  }
  return [...alike.values()].flatMap((twins): [string, string][] => {
    const texts = twins.map(({ text }) => text);
    const apart = Math.min(...texts.map((text) => sharedStart(texts[0] as string, text)));
    const differ = new Set(texts).size > 1;
    if (differ) return shortNames(twins, wordStart(texts[0] as string, apart));
    return twins.map(({ prompt, text }) => [prompt, shown(text, start)]);
  });
}

/** A text from `start` on; its last characters where it ended before. */
function shown(text: string, start: number): string {
  return cut((start > 0 ? "…" : "") + (text.slice(start) || text.slice(-SEEN)));
}

/** From where to where a prompt is not like most of the others. */
function ownPart(prompt: string, others: readonly string[]): [number, number] {
  const front = middle(others.map((other) => sharedStart(prompt, other)));
  const start = prompt.slice(0, front).search(/\S*$/);
  const back = middle(others.map((other) => sharedEnd(prompt, other)));
  const end = prompt.length - back + (/^\S*/.exec(prompt.slice(prompt.length - back))?.[0].length ?? 0);
  return [start, Math.max(start, end)];
}

function sharedStart(a: string, b: string): number {
  const most = Math.min(a.length, b.length);
  let count = 0;
  while (count < most && a[count] === b[count]) count += 1;
  return count;
}

function sharedEnd(a: string, b: string): number {
  const most = Math.min(a.length, b.length);
  let count = 0;
  while (count < most && a[a.length - 1 - count] === b[b.length - 1 - count]) count += 1;
  return count;
}

/** The lower median: what most of the others share, whatever a stranger among them does. */
function middle(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[(values.length - 1) >> 1] ?? 0;
}

function wordStart(text: string, at: number): number {
  const back = /\S*$/.exec(text.slice(0, at))?.[0].length ?? 0;
  return back <= BACK ? at - back : at;
}

function sample(prompts: readonly string[]): readonly string[] {
  const step = Math.max(1, prompts.length / COMPARED);
  return prompts.filter((_, index) => Math.floor(index / step) !== Math.floor((index - 1) / step));
}

const oneLine = (text: string) => text.trim().replaceAll(/\s+/g, " ");
/** The last line of some words: below it stands at most who speaks next. */
const lastSentence = (text: string) =>
  text
    .split("\n")
    .map(oneLine)
    .findLast((line) => line.split(" ").length >= 3) ?? oneLine(text);
const cut = (text: string) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);

/** Neighbours on the map that belong to the same prompt, with its name. */
export function promptGroups(
  sequences: readonly { global_prompt_id: string | null; prompt: string }[],
  order: readonly number[],
  names: ReadonlyMap<string, string>,
): { from: number; count: number; name: string }[] {
  const groups: { from: number; count: number; name: string; id: string }[] = [];
  order.forEach((index, position) => {
    const { global_prompt_id, prompt } = sequences[index] as (typeof sequences)[number];
    const id = global_prompt_id ?? prompt;
    const last = groups.at(-1);
    if (last?.id === id) last.count += 1;
    else groups.push({ from: position, count: 1, name: names.get(prompt) ?? prompt, id });
  });
  return groups;
}
