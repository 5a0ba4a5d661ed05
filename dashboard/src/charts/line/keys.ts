/** What a key does to the cursor of a line chart or to the part that is shown. */
import { type Line, longestLine, nearestPoint, type Pointed, pointedAt, type Range } from "./lines";
import { panRange, zoomRange } from "./range";

export interface KeyContext {
  lines: readonly Line[];
  cursor: Pointed | null;
  range: Range;
  /** Everything that can be shown; null where the range is fixed. */
  bounds: Range | null;
  /** No range is narrower; steps are whole where this is left out. */
  narrowest?: number;
  /** Whether up and down choose a line. */
  byLine: boolean;
}

export type KeyResult =
  | { kind: "cursor"; cursor: Pointed | null }
  /** `null` shows everything. */
  | { kind: "range"; range: Range | null };

/** `key` and `shift` as the browser reports them; null for a key that does nothing here. */
export function keyResult(key: string, shift: boolean, context: KeyContext): KeyResult | null {
  const { cursor, range, bounds, narrowest } = context;
  if (key === "Escape") return cursor === null ? null : { kind: "cursor", cursor: null };
  const moved = movedCursor(key, shift, context);
  if (moved !== null) return { kind: "cursor", cursor: moved };
  if (bounds === null) return null;
  const at = cursor?.x ?? (range[0] + range[1]) / 2;
  switch (key) {
    case "+":
    case "=":
      return { kind: "range", range: zoomRange(range, at, 1 / 1.5, bounds, narrowest) };
    case "-":
      return { kind: "range", range: zoomRange(range, at, 1.5, bounds, narrowest) };
    case "PageUp":
      return { kind: "range", range: panRange(range, -0.5, bounds, narrowest) };
    case "PageDown":
      return { kind: "range", range: panRange(range, 0.5, bounds, narrowest) };
    case "0":
      return { kind: "range", range: null };
    default:
      return null;
  }
}

function movedCursor(
  key: string,
  shift: boolean,
  { lines, cursor, range, bounds, byLine }: KeyContext,
): Pointed | null {
  const across = byLine ? ({ ArrowUp: -1, ArrowDown: 1 }[key] ?? 0) : 0;
  const line = lineAfter(lines, byLine ? cursor : null, across);
  const last = (line?.x.length ?? 0) - 1;
  if (line === null || last < 0) return null;
  const stride = shift ? 10 : 1;
  // Where the range can be moved, Page Up and Page Down move it.
  const page = bounds === null ? 20 : undefined;
  const moves: Record<string, number | undefined> = {
    ArrowLeft: -stride,
    ArrowRight: stride,
    Home: -last,
    End: last,
    PageUp: page && -page,
    PageDown: page,
  };
  const by = moves[key];
  if (by === undefined && across === 0) return null;
  const start = cursor === null ? nearestPoint(line, range[1]) : nearestPoint(line, cursor.x);
  // The first key shows the cursor at the end; Home and End go to where they say.
  const jumps = key === "Home" || key === "End";
  const index = cursor === null && !jumps ? start : start + (by ?? 0);
  return pointedAt(line, Math.min(last, Math.max(0, index)));
}

/** The line that the cursor is on, or the one `by` further in their order. */
function lineAfter(lines: readonly Line[], cursor: Pointed | null, by: number): Line | null {
  const index = lines.findIndex(({ id }) => id === cursor?.id);
  if (index < 0) return longestLine(lines);
  return lines[(index + by + lines.length) % lines.length] ?? null;
}
