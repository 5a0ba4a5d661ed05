/** Why a run is paused or ended, in the words of the pill. */
import { type Evidence, type ExplanationOut, fromWire, type StateOut } from "@/api/types";
import { formatCount, formatDuration, formatValue } from "@/lib/format";
import { hasEnded } from "@/live/commandAvailability";
import type { Connection } from "@/live/store";
import type { IconName } from "@/ui";

export interface StatusPill {
  tone: "warn" | "bad" | "neutral";
  icon: IconName;
  title: string;
  text: string;
  /** Samples that carry it; the pill offers to show them. */
  samples: readonly number[];
  /** What a rule's finding means; null for other reasons. */
  explanation?: ExplanationOut | null;
  /** The way out, where there is one. */
  offer?: "back" | "traceback";
}

const COMPARED = /^(.+?) (<=|>=|<|>|==|!=) (\S+)$/;

/** Condition, measured value and limit in one: `loss z-score 12.5 > 4`. */
export function evidenceText({ condition, value, limit, note }: Evidence): string {
  const measured = fromWire(value);
  const compared = COMPARED.exec(condition);
  let text = condition;
  if (compared && measured !== null && fromWire(limit) !== null) {
    text = `${compared[1]} ${formatValue(measured, 3)} ${compared[2]} ${compared[3]}`;
  } else if (measured !== null && !Number.isFinite(measured)) {
    text = `${condition} (${formatValue(measured)})`;
  }
  return note ? `${text} · ${note}` : text;
}

type Freshness = Pick<Connection, "status" | "ageS"> & Partial<Pick<Connection, "why">>;

/** The most urgent thing to say beside the tabs, never two; null while there is nothing to explain. */
export function statusPillOf(state: StateOut | null, connection: Freshness): StatusPill | "ended" | null {
  const silent = silence(state, connection);
  if (silent || state === null) return silent;
  if (hasEnded(state)) return "ended";
  if (state.state === "failed" && state.reason) {
    const look = { tone: "bad", icon: "close", title: "Failed.", samples: [] } as const;
    return { ...look, text: state.reason, offer: "traceback" };
  }
  return state.parked ? whyParked(state) : whereTo(state);
}

function whyParked({ breakpoint, reason }: StateOut): StatusPill | null {
  if (breakpoint) {
    const { breakpoint: id, samples, explanation, layer } = breakpoint;
    // A cause that is a sample's share of the loss says what the note says.
    const isSaid = samples.length === 1 && breakpoint.cause?.endsWith("of the loss");
    const evidence = evidenceText(isSaid ? { ...breakpoint, note: null } : breakpoint);
    const hit = layer === null || evidence.includes(layer) ? evidence : `${layer}: ${evidence}`;
    const text = reason ? `${hit}. ${reason}` : hit;
    const title = explanation ? `${explanation.title}, breakpoint ${id}` : `Stopped by breakpoint ${id}`;
    if (breakpoint.cause)
      return { ...causeOf(breakpoint, breakpoint.cause, hit), title: breakpoint.title || title };
    return { tone: "warn", icon: "diamond", title, text, samples, explanation };
  }
  return reason
    ? { tone: "warn", icon: "warning", title: "Paused by midstep:", text: reason, samples: [] }
    : null;
}

/** Where the stop came from, in place of what was noticed. */
function causeOf({ samples, explanation }: Evidence, cause: string, hit: string): Omit<StatusPill, "title"> {
  const isBroken = cause.startsWith("First non-finite");
  return isBroken
    ? { tone: "bad", icon: "refused", text: cause, samples, offer: "back" }
    : {
        tone: "warn",
        icon: "diamond",
        text: explanation ? cause : `${cause} · ${hit}`,
        samples,
        explanation,
      };
}

function whereTo({ state, waiting_for, run_until, step, phase, phase_s }: StateOut): StatusPill | null {
  if (state === "pausing" && waiting_for !== null) {
    return { tone: "warn", icon: "clock", title: "Pausing", text: waiting_for, samples: [] };
  }
  // Only a phase that the loop has named has a time.
  if (phase && typeof phase_s === "number") {
    return {
      tone: "neutral",
      icon: "clock",
      title: phase,
      text: `for ${formatDuration(phase_s)}`,
      samples: [],
    };
  }
  if (run_until === null) return null;
  const text = `${formatCount(Math.max(0, run_until - step))} steps left`;
  return {
    tone: "neutral",
    icon: "runTo",
    title: `Running to step ${formatCount(run_until)}`,
    text,
    samples: [],
  };
}

function silence(state: StateOut | null, { status, ageS, why }: Freshness): StatusPill | null {
  if (status !== "reconnecting" && status !== "not responding") return null;
  if (why) return { tone: "bad", icon: "unplugged", title: "Run not reachable.", text: why, samples: [] };
  const dead = status === "not responding";
  const known = dead && state ? `Last known step ${formatCount(state.step)}. ` : "";
  return {
    tone: dead ? "bad" : "warn",
    icon: "unplugged",
    title: `No answer for ${formatCount(ageS)} s.`,
    text: `${known}Training may still be running. Reconnecting.`,
    samples: [],
  };
}
