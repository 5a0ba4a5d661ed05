import type { SampleOut } from "@/api/types";
import { plural } from "@/lib/format";

/** "20 tokens" or "312 characters". */
export function lengthText({ text, tokens }: Pick<SampleOut, "text" | "tokens">): string {
  if (tokens !== null) return plural(tokens.length, "token");
  return plural(text?.length ?? 0, "character");
}
