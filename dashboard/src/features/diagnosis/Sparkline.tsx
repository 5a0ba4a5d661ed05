/** The values of the last steps in one line of a table. */
import type { WireNumber } from "@/api/types";
import { linePoints } from "./diagnosisText";

const WIDTH = 104;
const HEIGHT = 14;
const EDGE = 4;

interface SparklineProps {
  line: readonly (WireNumber | null)[];
  /** Index of the step at which it changed. */
  changedAt: number | null;
  tone: "bad" | "plain" | "quiet";
}

const STROKES = { bad: "stroke-bad-mark", plain: "stroke-t2", quiet: "stroke-line3" };
const FILLS = { bad: "fill-bad-mark", plain: "fill-t2", quiet: "fill-line3" };

export function Sparkline({ line, changedAt, tone }: SparklineProps) {
  const points = linePoints(line, WIDTH, HEIGHT);
  const known = points.filter((point) => point !== null);
  const last = points.at(-1);
  const ends = line.at(-1);
  const isBroken = typeof ends === "string";
  const x = changedAt === null ? null : (changedAt * WIDTH) / Math.max(1, line.length - 1);
  return (
    <svg
      aria-hidden="true"
      width={WIDTH + 2 * EDGE}
      height={HEIGHT + 2 * EDGE}
      viewBox={`${-EDGE} ${-EDGE} ${WIDTH + 2 * EDGE} ${HEIGHT + 2 * EDGE}`}
      className="block"
    >
      {x !== null && x < WIDTH && (
        <line
          x1={x}
          x2={x}
          y1={-2}
          y2={HEIGHT + 2}
          strokeDasharray="2 2"
          className="stroke-warn-mark"
          strokeWidth={1}
        />
      )}
      <polyline
        points={known.map((point) => `${point.x},${point.y}`).join(" ")}
        fill="none"
        strokeWidth={1.25}
        className={STROKES[tone]}
      />
      {last && <circle cx={last.x} cy={last.y} r={2} className={FILLS[tone]} />}
      {isBroken && (
        <path
          d={`M${WIDTH - 3} ${HEIGHT - 3} l6 6 m0 -6 l-6 6`}
          strokeWidth={1.5}
          className="stroke-bad-mark"
        />
      )}
    </svg>
  );
}
