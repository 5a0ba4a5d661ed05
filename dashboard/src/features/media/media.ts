/** Which item of each group is shown at a step, and what is said of it. */
import type { MediaGroup, MediaItem, PictureOut } from "@/api/types";
import { formatCount, formatRate, formatValue, plural } from "@/lib/format";

/** All steps of these groups, rising, each once: where the slider can stand. */
export function allSteps(groups: readonly MediaGroup[]): number[] {
  return [...new Set(groups.flatMap(({ steps }) => steps))].sort((a, b) => a - b);
}

/** Index of the newest item up to a step; null where the group begins later. Null as the step means the newest. */
export function indexAt(steps: readonly number[], step: number | null): number | null {
  const found = step === null ? steps.length - 1 : steps.findLastIndex((one) => one <= step);
  return found < 0 ? null : found;
}

const KINDS: readonly MediaGroup["kind"][] = ["image", "text", "table", "histogram"];

/** Groups that have anything to show: pictures first, so that equal things stand in rows, then by name. */
export function inOrder(groups: readonly MediaGroup[]): MediaGroup[] {
  return groups
    .filter(({ numbers }) => numbers.length > 0)
    .sort((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || a.key.localeCompare(b.key));
}

/** Groups whose name has this in it. */
export function namedLike(groups: readonly MediaGroup[], filter: string): MediaGroup[] {
  const wanted = filter.trim().toLowerCase();
  return groups.filter(({ key }) => key.toLowerCase().includes(wanted));
}

/** "51 of 1,007 kept", or nothing where everything is. */
export function keptText({ logged, numbers, abandoned }: MediaGroup): string {
  const kept = numbers.length + abandoned;
  return kept < logged ? `${formatCount(kept)} of ${formatCount(logged)} kept` : "";
}

/** Why fewer are shown than were logged. */
export function keptTitle(group: MediaGroup): string {
  const { numbers, abandoned } = group;
  const thinned =
    keptText(group) === "" ? "" : "The first, the last and evenly spaced ones between are kept.";
  const left =
    abandoned > 0
      ? `${plural(abandoned, "item")} ${abandoned === 1 ? "belongs" : "belong"} to an earlier timeline and ${abandoned === 1 ? "is" : "are"} hidden.`
      : "";
  return [plural(numbers.length, "item"), thinned, left].filter(Boolean).join(". ").replace("..", ".");
}

/** What is said below a picture: its size, the values of black and white, and what is left out. */
export function pictureText(picture: PictureOut): string {
  const { width, height, low, high, every, tiles, of } = picture;
  const parts = [`${formatCount(width)} × ${formatCount(height)} px`];
  if (low !== null && high !== null && !(low === 0 && high === 255))
    parts.push(`black ${formatRate(low)}, white ${formatRate(high)}`);
  if (of > tiles) parts.push(`${formatCount(tiles)} of ${formatCount(of)} pictures`);
  if (every > 1) parts.push(`every ${ordinal(every)} pixel`);
  return parts.join(" · ");
}

/** What is said of a text, a table or a histogram. */
export function itemText({ text, table, histogram }: MediaItem): string {
  if (text !== null) return text.cut ? `the beginning of ${formatCount(text.characters)} characters` : "";
  if (table !== null)
    return table.of > table.rows
      ? `${formatCount(table.rows)} of ${plural(table.of, "row")}`
      : plural(table.rows, "row");
  if (histogram === null) return "";
  const { values, counted, mean } = histogram;
  const sampled = counted < values ? `, ${formatCount(counted)} counted` : "";
  return `${plural(values, "value")}${sampled} · mean ${formatValue(mean, 3)}`;
}

/** Values that are NaN or infinite, said in the colour in which they are drawn. */
export const brokenOf = ({ picture, histogram }: MediaItem) =>
  picture?.nonfinite ?? histogram?.nonfinite ?? 0;

function ordinal(number: number): string {
  const ending = number % 10 === 2 && number !== 12 ? "nd" : number % 10 === 3 && number !== 13 ? "rd" : "th";
  return `${number}${ending}`;
}

/** How many screen pixels a pixel of the picture takes: whole ones, so that nothing is blurred. */
export function pixelZoom(width: number, height: number, room: { width: number; height: number }): number {
  return Math.max(1, Math.floor(Math.min(room.width / width, room.height / height)));
}
