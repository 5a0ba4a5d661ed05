import { lazy, Suspense } from "react";
import { useConnection, useRunState } from "@/live/hooks";
import { Explanation, Icon, Popover } from "@/ui";
import { Pill } from "../Frame";
import { statusPillOf } from "./statusPill";

const EndedPill = lazy(() => import("./EndedPill"));
const EXPLAIN = "h-5 shrink-0 rounded-chip! bg-current/15 px-2 font-medium hover:bg-current/25!";

/** The right side of the tab row: why the run is paused, ended or does not answer. */
export function LivePill({ onShowSamples }: { onShowSamples: (ids: readonly number[]) => void }) {
  const state = useRunState();
  const connection = useConnection();
  const reason = statusPillOf(state, connection);
  if (reason === "ended") {
    return (
      <Suspense fallback={null}>
        <EndedPill />
      </Suspense>
    );
  }
  if (reason === null) return null;
  const { tone, icon, title, text, samples, explanation } = reason;
  const show = { label: "Show samples", run: () => onShowSamples(samples) };
  return (
    <Pill
      tone={tone}
      glyph={<Icon name={icon} size={icon === "diamond" ? 11 : 14} filled={icon === "diamond"} />}
      title={title}
      text={text}
      action={samples.length > 0 && !explanation ? show : undefined}
      more={
        explanation && (
          <Popover label="Explanation" button="Explain" className={EXPLAIN}>
            <Explanation {...explanation} finding={text} />
          </Popover>
        )
      }
    />
  );
}
