import type { StatusTone } from "@/lib/rowStatus";

const TEXTS: Record<StatusTone, string> = {
  good: "text-ok",
  warn: "text-warn",
  bad: "text-bad",
  neutral: "text-t2",
};

/** Full, half or a ring, so that the colour never stands alone. */
export function StatusMark({ tone }: { tone: StatusTone }) {
  const base = "inline-block size-2 shrink-0 rounded-full";
  if (tone === "good") return <span className={`${base} bg-ok-mark`} />;
  if (tone === "bad") return <span className={`${base} border-[1.5px] border-bad-mark`} />;
  if (tone === "neutral") return <span className={`${base} border-[1.5px] border-line3 bg-line2`} />;
  return (
    <span className={`${base} relative overflow-hidden border-[1.5px] border-warn-mark`}>
      <span className="absolute inset-y-0 left-0 w-1/2 bg-warn-mark" />
    </span>
  );
}

/** A mark and its word in the tone's colour. */
export function StatusWord({ tone, word }: { tone: StatusTone; word: string }) {
  return (
    <span className={`inline-flex items-center gap-1.5 ${TEXTS[tone]}`}>
      <StatusMark tone={tone} />
      {word}
    </span>
  );
}
