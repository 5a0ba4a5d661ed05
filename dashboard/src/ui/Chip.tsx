import type { ReactNode } from "react";
import { Icon, type IconName } from "./Icon";
import { RunningDot } from "./RunningDot";

export type Tone = "neutral" | "accent" | "ok" | "warn" | "bad";

const TONES: Record<Tone, string> = {
  neutral: "bg-s2 text-t2",
  accent: "bg-accent-soft text-accent",
  ok: "bg-ok-soft text-ok",
  warn: "bg-warn-soft text-warn",
  bad: "bg-bad-soft text-bad",
};

interface ChipProps {
  tone?: Tone;
  glyph?: ReactNode;
  children: ReactNode;
}

/** A word with a glyph on a soft ground. */
export function Chip({ tone = "neutral", glyph, children }: ChipProps) {
  return (
    <span
      className={`inline-flex h-5 shrink-0 items-center gap-1 rounded-full text-body font-medium whitespace-nowrap ${glyph ? "pr-2 pl-1.5" : "px-2"} ${TONES[tone]}`}
    >
      {glyph}
      {children}
    </span>
  );
}

interface StateLook {
  word: string;
  tone: Tone;
  icon: IconName | "running" | "stop";
}

/** Every state of a run that the page can show. */
export type ShownState =
  | "starting"
  | "running"
  | "pausing"
  | "paused"
  | "stepping"
  | "rewinding"
  | "busy"
  | "stopping"
  | "stopped"
  | "finished"
  | "failed"
  | "killed"
  | "lost"
  | "damaged"
  | "not responding";

/** Colour, glyph and word of every state a run can be in; always all three. */
export const STATE_LOOKS: Record<ShownState, StateLook> = {
  starting: { word: "Starting", tone: "neutral", icon: "spinner" },
  running: { word: "Running", tone: "accent", icon: "running" },
  pausing: { word: "Pausing…", tone: "warn", icon: "spinner" },
  paused: { word: "Paused", tone: "warn", icon: "pause" },
  stepping: { word: "Stepping", tone: "accent", icon: "step" },
  rewinding: { word: "Rewinding", tone: "warn", icon: "back" },
  busy: { word: "Busy", tone: "warn", icon: "spinner" },
  stopping: { word: "Stopping…", tone: "warn", icon: "spinner" },
  stopped: { word: "Stopped", tone: "neutral", icon: "stop" },
  finished: { word: "Finished", tone: "neutral", icon: "check" },
  failed: { word: "Failed", tone: "bad", icon: "close" },
  killed: { word: "Killed", tone: "bad", icon: "killed" },
  lost: { word: "Lost", tone: "neutral", icon: "lost" },
  damaged: { word: "Damaged", tone: "warn", icon: "warning" },
  "not responding": { word: "Not responding", tone: "bad", icon: "unplugged" },
};

function glyphOf(icon: StateLook["icon"]): ReactNode {
  if (icon === "running") return <RunningDot />;
  if (icon === "stop") return <Icon name="stop" size={11} filled />;
  return <Icon name={icon} size={14} className={icon === "spinner" ? "animate-turn" : ""} />;
}

/** The real state of a run, never the hoped-for one. */
export function StateChip({ state }: { state: ShownState }) {
  const { word, tone, icon } = STATE_LOOKS[state];
  return (
    <Chip tone={tone} glyph={glyphOf(icon)}>
      {word}
    </Chip>
  );
}
