/** Which entries of the palette match what was typed, and which of them comes first. */

export interface Searchable {
  title: string;
  /** Other words a person may search for. */
  words?: string;
}

/** How well one typed word matches; 0 where it does not. */
function wordScore(typed: string, title: string, words: string): number {
  if (title.startsWith(typed)) return 6;
  if (title.split(/[\s/_.-]+/).some((word) => word.startsWith(typed))) return 5;
  if (title.includes(typed)) return 4;
  if (words.split(/\s+/).some((word) => word.startsWith(typed))) return 3;
  if (words.includes(typed)) return 2;
  return isSubsequence(typed, initialsOf(title)) ? 1 : 0;
}

const initialsOf = (title: string) =>
  title
    .split(/\s+/)
    .map((word) => word.charAt(0))
    .join("");

/** Whether the letters occur in this order: "slr" in the initials of "set learning rate …". */
function isSubsequence(letters: string, text: string): boolean {
  let from = 0;
  for (const letter of letters) {
    const index = text.indexOf(letter, from);
    if (index < 0) return false;
    from = index + 1;
  }
  return true;
}

/** The mean over the typed words; 0 where one of them does not match. */
export function matchScore(query: string, { title, words = "" }: Searchable): number {
  const typed = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (typed.length === 0) return 1;
  const scores = typed.map((word) => wordScore(word, title.toLowerCase(), words.toLowerCase()));
  return scores.includes(0) ? 0 : scores.reduce((sum, score) => sum + score, 0) / scores.length;
}

export interface Group<Entry extends Searchable> {
  heading: string;
  entries: readonly Entry[];
}

/** Groups and their entries, best match first; in their own order where nothing is typed or scores are equal. */
export function rankGroups<Entry extends Searchable>(
  query: string,
  groups: readonly Group<Entry>[],
): Group<Entry>[] {
  const ranked = groups.flatMap(({ heading, entries }) => {
    const scored = entries
      .map((entry) => ({ entry, score: matchScore(query, entry) }))
      .filter(({ score }) => score > 0)
      .sort((a, b) => b.score - a.score);
    const best = scored[0]?.score;
    return best === undefined ? [] : [{ heading, best, entries: scored.map(({ entry }) => entry) }];
  });
  return ranked.sort((a, b) => b.best - a.best).map(({ heading, entries }) => ({ heading, entries }));
}

/** Index of the next entry that can be chosen, round the end; -1 where none can. */
export function nextEnabled(isEnabled: readonly boolean[], from: number, by: 1 | -1): number {
  const count = isEnabled.length;
  for (let step = 1; step <= count; step += 1) {
    const index = (((from + by * step) % count) + count) % count;
    if (isEnabled[index]) return index;
  }
  return -1;
}
