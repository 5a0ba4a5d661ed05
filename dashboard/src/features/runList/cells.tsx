/** Cells of the table of runs. */
import type { RunRow } from "@/api/types";
import {
  formatAge,
  formatBytes,
  formatCount,
  formatDuration,
  formatFixed,
  formatValue,
  NONE,
} from "@/lib/format";
import { STATE_LOOKS, type Tone } from "@/ui";
import { cellText, type NumberStyle } from "@/ui/table/columnFormat";
import type { Spread } from "./grouping";
import { cellOf, durationOf, progressOf, settingText, silentSince } from "./values";

const BARS: Record<Tone, string> = {
  accent: "bg-accent",
  warn: "bg-warn-mark",
  bad: "bg-bad-mark",
  ok: "bg-ok-mark",
  neutral: "bg-t3",
};

/** A bar and its share, or the steps where no end is known. */
export function Progress({ run }: { run: RunRow }) {
  const share = progressOf(run);
  if (share === null) return <span>{formatCount(run.step)}</span>;
  const steps = `${formatCount(run.step)} of ${formatCount(run.total_steps)} steps`;
  return (
    <span className="flex items-center gap-1.5" title={steps}>
      <span className="h-1 w-10 shrink-0 rounded-full bg-s3">
        <span
          className={`block h-full rounded-full ${BARS[STATE_LOOKS[run.state].tone]}`}
          style={{ width: `${share * 100}%` }}
        />
      </span>
      <span>{Math.floor(share * 100)} %</span>
    </span>
  );
}

export function Tags({ tags }: { tags: readonly string[] }) {
  return (
    <span className="flex gap-1 overflow-hidden" title={tags.join(", ")}>
      {tags.map((tag) => (
        <span key={tag} className="h-4 shrink-0 rounded-chip bg-s3 px-1 text-label leading-4 text-t2">
          {tag}
        </span>
      ))}
    </span>
  );
}

/** How long ago a run was last heard of: "now" for one that lives. */
export function ageText(run: RunRow, now: number): string {
  const since = silentSince(run);
  if (since === null) return run.live ? "now" : NONE;
  return formatAge(Math.max(0, now - since));
}

/** A cell as text, in the style of its column. */
export function valueText(run: RunRow, key: string, style: NumberStyle): string {
  if (key.startsWith("config.")) return settingText(run.config[key.slice(7)]);
  if (key === "bytes") return run.bytes === null ? NONE : formatBytes(run.bytes);
  if (key === "duration") return formatDuration(durationOf(run));
  return cellText(cellOf(run, key), style);
}

/** "0.0621 ± 0.0003", or the mean alone where the spread would say nothing. */
export function spreadText({ mean, deviation, enough }: Spread, style: NumberStyle): string {
  const write = (value: number) =>
    style.kind === "fixed" ? formatFixed(value, style.decimals) : formatValue(value);
  return enough ? `${write(mean)} ± ${write(deviation)}` : `${write(mean)}, too few seeds`;
}
