/** Limits of what people write to a run, as the server has them. */
export const MAX_TAGS = 32;
export const MAX_NOTE = 10_000;
const MAX_LETTERS = 64;

/** The tags with those that were typed, commas between them; each once, none empty. */
export function withTag(tags: readonly string[], typed: string): string[] {
  const added = typed
    .split(",")
    .map((tag) => tag.trim().slice(0, MAX_LETTERS))
    .filter(Boolean);
  return [...new Set([...tags, ...added])].slice(0, MAX_TAGS);
}
