/** How repeated steps came out, after a resume or after going back. */
import type { StateOut } from "@/api/types";
import { useRunState } from "@/live/hooks";

type Repeated = NonNullable<StateOut["repeated"]>;

/** "Exact over 3 repeated steps" without how many values of each kind were compared; only what is not exact stands out. */
export function repeatedNote({ verdict, text }: Pick<Repeated, "verdict" | "text">) {
  const short = verdict === "exact" ? text.replace(/: [^;]*/, "") : text;
  return {
    short: `${short.charAt(0).toUpperCase()}${short.slice(1)}`,
    isBad: verdict === "moved" || verdict === "differs",
  };
}

/** A part of the line above the track. */
export function RepeatedNote(repeated: Pick<Repeated, "verdict" | "text">) {
  const { short, isBad } = repeatedNote(repeated);
  return (
    <span className={`min-w-0 flex-1 truncate ${isBad ? "font-medium text-bad" : ""}`} title={repeated.text}>
      {short}
    </span>
  );
}

/** The note of the followed run; nothing where no step was repeated. */
export function LiveRepeatedNote() {
  // Strings, so that a state in which they are the same draws nothing.
  const text = useRunState(({ repeated }) => repeated?.text);
  const verdict = useRunState(({ repeated }) => repeated?.verdict) ?? null;
  return text === undefined ? null : <RepeatedNote {...{ verdict, text }} />;
}
