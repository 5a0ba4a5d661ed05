/** Marks that lie too near to each other for a text each. */
import { formatCount } from "@/lib/format";
import type { Mark } from "./lines";

/** Indices of rising positions in groups: neighbours within a group are nearer than `apart`. */
export function nearGroups(positions: readonly number[], apart: number): number[][] {
  const groups: number[][] = [];
  positions.forEach((position, index) => {
    const before = positions[index - 1];
    if (before === undefined || position - before >= apart) groups.push([index]);
    else groups.at(-1)?.push(index);
  });
  return groups;
}

/** "3 stops around 12,300": to the digits that lie between them; of one mark its own text. */
export function groupText(marks: readonly Mark[]): string {
  const [first, last] = [marks[0], marks.at(-1)];
  if (first === undefined || last === undefined) return "";
  if (marks.length === 1) return first.text;
  const middle = (marks[marks.length >> 1] as Mark).x;
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(1, last.x - first.x))));
  return `${formatCount(marks.length)} stops around ${formatCount(Math.round(middle / unit) * unit)}`;
}
