import { lazy, Suspense, useState } from "react";
import { useConnection, useRunState, useVerb } from "@/live/hooks";
import { goBack } from "@/live/rewind";
import { Explanation, Icon, PartBoundary, Popover } from "@/ui";
import { Pill } from "../Frame";
import { statusPillOf } from "./statusPill";

const EndedPill = lazy(() => import("./EndedPill"));
const TracebackDialog = lazy(() => import("@/features/diagnosis/TracebackDialog"));

const EXPLAIN = "h-5 shrink-0 rounded-chip! bg-current/15 px-2 font-medium hover:bg-current/25!";

/** The right side of the tab row: why the run is paused, ended or does not answer. */
export function LivePill({ onShowSamples }: { onShowSamples: (ids: readonly number[]) => void }) {
  const state = useRunState();
  const connection = useConnection();
  const back = useVerb("back");
  const [traced, setTraced] = useState(false);
  const reason = statusPillOf(state, connection);
  if (reason === "ended") {
    return (
      <PartBoundary>
        <Suspense fallback={null}>
          <EndedPill />
        </Suspense>
      </PartBoundary>
    );
  }
  if (reason === null) return null;
  const { tone, icon, title, text, samples, explanation, offer } = reason;
  const actionOf = () => {
    if (offer === "traceback") return { label: "Show traceback", run: () => setTraced(true) };
    if (offer === "back" && back.disabledReason === null)
      return { label: "Back 1", run: () => void goBack({ n: 1 }) };
    if (samples.length > 0 && !explanation)
      return { label: "Show samples", run: () => onShowSamples(samples) };
  };
  const pill = (
    <Pill
      tone={tone}
      glyph={<Icon name={icon} size={icon === "diamond" ? 11 : 14} filled={icon === "diamond"} />}
      title={title}
      text={text}
      action={actionOf()}
      more={
        explanation && (
          <Popover label="Explanation" button="Explain" className={EXPLAIN}>
            <Explanation {...explanation} finding={text} />
          </Popover>
        )
      }
    />
  );
  return (
    <>
      {pill}
      {traced && (
        <Suspense fallback={null}>
          <TracebackDialog onClose={() => setTraced(false)} />
        </Suspense>
      )}
    </>
  );
}
