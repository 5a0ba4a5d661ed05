/** The strip of a run that has ended: at which step, and the checkpoints that are left. */
import { type KeyboardEvent, type PointerEvent, useState } from "react";
import type { Checkpoint, StateOut } from "@/api/types";
import { useSize } from "@/charts/useSize";
import { formatBytes, formatCount, formatTime } from "@/lib/format";
import { Icon, type IconName } from "@/ui";
import { Divider, ProgressTrack, ROW } from "./TransportView";

const ENDS: Partial<Record<StateOut["state"], { word: string; icon: IconName; look: string }>> = {
  finished: { word: "Finished", icon: "check", look: "" },
  stopped: { word: "Stopped", icon: "stop", look: "text-t2" },
  failed: { word: "Failed", icon: "close", look: "text-bad" },
  killed: { word: "Killed", icon: "killed", look: "text-bad" },
  lost: { word: "Lost", icon: "lost", look: "text-t2" },
};

interface EndedStripProps {
  state: StateOut;
  checkpoints: readonly Checkpoint[];
  /** "6 kept · 6.6 MiB · best 23,620" */
  fact: string;
  stale: boolean;
}

/** Shown instead of the verbs when the run has ended. */
export default function EndedStrip({ state, checkpoints, fact, stale }: EndedStripProps) {
  const { word, icon, look } = ENDS[state.state] ?? { word: "Stopped", icon: "stop", look: "text-t2" };
  return (
    <div className={ROW}>
      <Icon name={icon} size={15} className={look} />
      <span className="text-bar font-semibold whitespace-nowrap">
        {word} at step {formatCount(state.step)}
      </span>
      <Divider />
      {checkpoints.length > 0 ? (
        <CheckpointTrack {...{ checkpoints, fact, stale }} step={state.step} />
      ) : (
        <ProgressTrack state={state} stale={stale} />
      )}
    </div>
  );
}

/** Labels of steps need this much room each. */
const LABEL_PX = 52;

interface TrackProps {
  checkpoints: readonly Checkpoint[];
  step: number;
  fact: string;
  stale: boolean;
}

function CheckpointTrack({ checkpoints, step, fact, stale }: TrackProps) {
  const [container, { width }] = useSize<HTMLDivElement>();
  const [index, setIndex] = useState<number | null>(null);
  const last = Math.max(step, ...checkpoints.map((one) => one.step), 1);
  const share = (at: number) => at / last;
  const chosen = index === null ? null : (checkpoints[index] ?? null);
  const walk = (to: number) => setIndex(Math.min(Math.max(to, 0), checkpoints.length - 1));
  const onKeyDown = (event: KeyboardEvent) => {
    const now = index ?? checkpoints.length;
    const to = {
      ArrowLeft: now - 1,
      ArrowRight: now + 1,
      Home: 0,
      End: checkpoints.length - 1,
    }[event.key];
    if (event.key === "Escape") setIndex(null);
    if (to === undefined) return;
    event.preventDefault();
    walk(to);
  };
  const onPointerDown = (event: PointerEvent<HTMLElement>) => {
    const { left } = event.currentTarget.getBoundingClientRect();
    const at = (event.clientX - left) / Math.max(width, 1);
    const distances = checkpoints.map((one) => Math.abs(share(one.step) - at));
    walk(distances.indexOf(Math.min(...distances)));
  };
  const shown = chosen?.step ?? step;
  return (
    <div className={`flex min-w-0 flex-1 items-center gap-3 max-[899px]:basis-full ${stale ? "stale" : ""}`}>
      <div className="min-w-0 flex-1">
        <div className="flex justify-between gap-3 text-label text-t3">
          <span>Checkpoints</span>
          <span className={`truncate ${chosen === null ? "" : "font-medium text-text"}`}>
            {chosen === null ? fact : wordsOf(chosen)}
          </span>
        </div>
        <div
          ref={container}
          role="slider"
          tabIndex={0}
          data-keys="own"
          aria-label="Checkpoints. Arrows walk through them"
          aria-valuemin={checkpoints[0]?.step ?? 0}
          aria-valuemax={last}
          aria-valuenow={shown}
          aria-valuetext={chosen === null ? `${fact}; ended at ${formatCount(step)}` : wordsOf(chosen)}
          onKeyDown={onKeyDown}
          onPointerDown={onPointerDown}
          onBlur={() => setIndex(null)}
          className="relative my-px h-3"
        >
          <span className="absolute inset-x-0 top-1 h-1 rounded-full bg-s3" />
          {checkpoints.map((one) => (
            <span
              key={one.name}
              title={wordsOf(one)}
              className={`absolute top-0.5 h-2 w-1.5 -translate-x-1/2 rounded-[1px] ${markOf(one)} ${one.current ? "" : "opacity-40"}`}
              style={{ left: `${share(one.step) * 100}%` }}
            />
          ))}
          <span
            className="absolute top-0 size-3 -translate-x-1/2 rounded-full bg-accent"
            style={{ left: `${share(shown) * 100}%` }}
          />
        </div>
        <div className="relative h-4 text-label text-t3">
          {labelled(checkpoints, last, width).map((one) => (
            <span
              key={one.name}
              className="absolute -translate-x-1/2"
              style={{ left: `clamp(12px, ${share(one.step) * 100}%, calc(100% - 14px))` }}
            >
              {formatCount(one.step)}
            </span>
          ))}
        </div>
      </div>
      <span className="text-bar font-semibold whitespace-nowrap">{formatCount(shown)}</span>
    </div>
  );
}

const markOf = (one: Checkpoint): string => (one.best ? "bg-ok-mark" : "bg-line3");

/** "12,000 · 1.1 MiB · 13:20:11 · best" */
function wordsOf({ step, bytes, at, best, current }: Checkpoint): string {
  const parts = [formatCount(step), formatBytes(bytes), formatTime(at)];
  if (best) parts.push("best");
  if (!current) parts.push("rewound");
  return parts.join(" · ");
}

/** Those whose labels stand apart: the best first, then from the left. */
export function labelled(checkpoints: readonly Checkpoint[], last: number, width: number): Checkpoint[] {
  const kept: Checkpoint[] = [];
  const fits = (one: Checkpoint) =>
    kept.every((other) => (Math.abs(other.step - one.step) / last) * width >= LABEL_PX);
  const first = [...checkpoints].sort((a, b) => Number(b.best) - Number(a.best) || a.step - b.step);
  for (const one of first) if (fits(one)) kept.push(one);
  return kept;
}
