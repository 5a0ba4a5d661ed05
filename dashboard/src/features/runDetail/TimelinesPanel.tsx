/** The timelines of a run: each begins where the run was rewound, and is what counts from there on. */
import type { ReactNode } from "react";
import { useLineage } from "@/api/runs";
import type { LineageOut, TimelineOut } from "@/api/types";
import { seriesColour } from "@/charts/colors/seriesColors";
import { useSize } from "@/charts/useSize";
import { formatCount, formatTime, plural } from "@/lib/format";
import { useTheme } from "@/lib/theme";
import { Panel, panelState } from "@/ui";
import { type Lane, lanesOf } from "./timelines";

interface TimelinesPanelProps {
  runId: string;
  timeline: number;
  /** Steps taken so far. */
  step: number;
  total: number | null;
  /** A link to another run, by id. */
  link: (id: string) => ReactNode;
}

export default function TimelinesPanel({ runId, timeline, step, total, link }: TimelinesPanelProps) {
  const { data, error } = useLineage(runId, timeline);
  const count = data?.timelines.length ?? 0;
  return (
    <Panel
      title="Timelines"
      fact={data ? plural(count, "timeline") : undefined}
      className="h-full"
      bodyClassName="overflow-auto"
      state={panelState({ data, error: error?.message ?? null }, { what: "the timelines" })}
    >
      {data && (
        <>
          <Relatives lineage={data} link={link} />
          <Lanes timelines={data.timelines} step={step} total={total} />
        </>
      )}
    </Panel>
  );
}

function Relatives({
  lineage: { parent, children },
  link,
}: { lineage: LineageOut } & Pick<TimelinesPanelProps, "link">) {
  if (parent === null && children.length === 0) return null;
  return (
    <p className="flex flex-wrap gap-x-4 gap-y-1 px-3 pb-2 text-t2">
      {parent !== null && <span>Forked from {link(parent)}</span>}
      {children.length > 0 && (
        <span className="flex flex-wrap gap-x-2">
          Forks:{" "}
          {children.map((id) => (
            <span key={id}>{link(id)}</span>
          ))}
        </span>
      )}
    </p>
  );
}

const LANE = 36;
const LEFT = 92;
const RIGHT = 24;
const TOP = 12;

interface LanesProps {
  timelines: readonly TimelineOut[];
  step: number;
  total: number | null;
}

/** x is the step; each timeline has a lane, and leaves the one before at the step it was rewound to. */
function Lanes({ timelines, step, total }: LanesProps) {
  const [container, { width }] = useSize<HTMLDivElement>();
  useTheme();
  const lanes = lanesOf(timelines, step);
  const last = Math.max(1, total ?? 0, ...lanes.map(({ to }) => to));
  const x = (at: number) => LEFT + (at / last) * Math.max(0, width - LEFT - RIGHT);
  const y = (lane: number) => TOP + lane * LANE + LANE / 2;
  return (
    <div ref={container} className="min-w-0 shrink-0">
      <svg
        width={width}
        height={TOP + lanes.length * LANE + 24}
        role="img"
        aria-label={`Timelines: ${lanes.map(laneText).join("; ")}`}
        className="block"
      >
        {lanes.map((lane, index) => (
          <LaneMarks key={lane.timeline} {...{ lane, last, index, x, y, lanes }} />
        ))}
        <text x={x(0)} y={TOP + lanes.length * LANE + 16} textAnchor="middle" className="fill-t3 text-label">
          0
        </text>
        <text x={x(last)} y={TOP + lanes.length * LANE + 16} textAnchor="end" className="fill-t3 text-label">
          {formatCount(last)}
        </text>
      </svg>
    </div>
  );
}

const laneText = ({ name, from, to, why }: Lane) =>
  `${name} from step ${formatCount(from)} to ${formatCount(to)}${why ? `, ${why}` : ""}`;

const LETTER = 5.7;

/** Right of where the lane begins, or left of it where there is more room; cut only at the edge of the panel. */
function LaneText({ lane, x, y, right }: { lane: Lane; x: number; y: number; right: number }) {
  const words = `${lane.words}${lane.at === null ? "" : `, ${formatTime(lane.at)}`}`;
  const isRight = words.length * LETTER <= right - x || right - x >= x - LEFT;
  const letters = Math.floor((isRight ? right + RIGHT - x : x - LEFT) / LETTER);
  return (
    <text
      x={isRight ? x : x - 24}
      y={y}
      className="fill-t2 text-label"
      textAnchor={isRight ? "start" : "end"}
    >
      <title>{words}</title>
      {words.length > letters ? `${words.slice(0, Math.max(letters - 1, 0))}…` : words}
    </text>
  );
}

interface LaneMarksProps {
  lane: Lane;
  /** Last step of the axis. */
  last: number;
  index: number;
  lanes: readonly Lane[];
  x: (step: number) => number;
  y: (lane: number) => number;
}

function LaneMarks({ lane, last, index, lanes, x, y }: LaneMarksProps) {
  const current = index === lanes.length - 1;
  const colour = current ? seriesColour(0) : "var(--line2)";
  const [from, to, height] = [x(lane.from), x(lane.to), y(index)];
  const branch =
    index > 0 ? `M${from} ${y(index - 1)} C${from} ${height} ${from} ${height} ${from + 14} ${height}` : "";
  return (
    <g>
      <text x={12} y={height + 4} className={`text-body ${current ? "fill-text font-medium" : "fill-t2"}`}>
        {lane.name}
      </text>
      {branch && <path d={branch} fill="none" stroke={colour} strokeWidth={1.5} />}
      <line
        x1={index > 0 ? Math.min(from + 14, Math.max(from, to)) : from}
        x2={Math.max(from, to)}
        y1={height}
        y2={height}
        stroke={colour}
        strokeWidth={2}
      />
      <circle
        cx={Math.max(from, to)}
        cy={height}
        r={4}
        fill={current ? colour : "var(--surface)"}
        stroke={colour}
        strokeWidth={2}
      />
      <LaneText lane={lane} x={from + (index > 0 ? 18 : 0)} y={height - 8} right={x(last)} />
    </g>
  );
}
