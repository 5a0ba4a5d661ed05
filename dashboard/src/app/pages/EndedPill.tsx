/** The pill of a run that has ended: why it ended if that is bad, and what was kept. */
import { lazy, Suspense, useState } from "react";
import { useEvidence } from "@/api/evidence";
import { useRunDetail } from "@/api/runs";
import { endPill } from "@/features/kept/stopText";
import { useUrlState } from "@/lib/urlState";
import { useConnection, useRunId, useRunState } from "@/live/hooks";
import { Icon } from "@/ui";
import { Pill } from "../Frame";
import { useGo } from "../navigation";
import { useNow } from "../useNow";

const TracebackDialog = lazy(() => import("@/features/diagnosis/TracebackDialog"));

export default function EndedPill() {
  const runId = useRunId() ?? "";
  const state = useRunState();
  const { data: kept } = useEvidence(runId, state?.state ?? null);
  const { data: run } = useRunDetail(runId);
  const { canControl } = useConnection();
  const [traced, setTraced] = useState(false);
  const [, setLarge] = useUrlState("large", "none");
  const go = useGo();
  const now = useNow();
  const pill = state && endPill(state, kept, run, now, canControl);
  if (!pill) return null;
  const actions = {
    files: {
      label: "Show files",
      run: () => go(`/runs/${encodeURIComponent(runId)}`, { tab: "files" }),
    },
    traceback: {
      label: "Show traceback",
      // Without a console the facts have it.
      run: () => (kept?.console_bytes ? setLarge("console") : setTraced(true)),
    },
  };
  return (
    <>
      <Pill
        tone={pill.tone}
        glyph={<Icon name={pill.icon} size={14} />}
        title={pill.title}
        text={pill.text}
        action={pill.action === null ? undefined : actions[pill.action]}
      />
      {traced && (
        <Suspense fallback={null}>
          <TracebackDialog onClose={() => setTraced(false)} />
        </Suspense>
      )}
    </>
  );
}
