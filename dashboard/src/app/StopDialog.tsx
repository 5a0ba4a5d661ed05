import { useEffect, useState } from "react";
import { ApiError } from "@/api/client";
import { endRun, useRunRow } from "@/api/runs";
import type { ListedState, StopLevel } from "@/api/types";
import { formatCount } from "@/lib/format";
import { runVerb } from "@/live/commands";
import { useRunDetail, useRunId, useRunState } from "@/live/hooks";
import { Button, Dialog } from "@/ui";
import { firstLevel, isOver, nextLevel, PATIENCE_MS, STOP_LEVELS } from "./stopLevels";

interface StopDialogProps {
  /** Id of the run; null for the one that is followed. */
  about: string | null;
  onClose: () => void;
}

/** What is known of the run that is to end, from the stream where it is followed, else from the list. */
function useEnding(about: string | null) {
  const followed = useRunId();
  const id = about ?? followed;
  const own = id === followed;
  const { data: detail } = useRunDetail(id);
  const row = useRunRow(id ?? "");
  const live = useRunState();
  const state: ListedState | undefined = row?.state ?? (own ? live?.state : undefined) ?? detail?.state;
  // The list knows an end by signal first, the stream an orderly one.
  const ended = isOver(state) || (own && isOver(live?.state));
  const step = (own ? live?.step : undefined) ?? row?.step ?? detail?.step;
  const paused = own ? (live?.paused ?? false) : state === "paused";
  return { id, own, name: row?.name ?? detail?.name ?? "the run", state, ended, step, paused };
}

/** Confirms a stop, because a stopped run cannot continue. If the run does not stop, it offers SIGTERM, then SIGKILL. */
export default function StopDialog({ about, onClose }: StopDialogProps) {
  const { id, own, name, state, ended, step, paused } = useEnding(about);
  const [sent, setSent] = useState<StopLevel | null>(null);
  const [late, setLate] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const level = sent === null ? firstLevel(state) : late || problem !== null ? nextLevel(sent) : null;
  useEffect(() => {
    if (sent === null) return;
    const timer = setTimeout(() => setLate(true), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, [sent]);
  useEffect(() => {
    if (sent !== null && ended) onClose();
  }, [sent, ended, onClose]);

  const end = async (how: StopLevel) => {
    if (id === null) return;
    setSent(how);
    setLate(false);
    setProblem(null);
    try {
      if (how === "stop" && own) {
        const outcome = await runVerb("stop", {});
        if (outcome?.status === "done") onClose();
        else if (outcome !== null) setProblem(outcome.reason);
      } else await endRun(id, how);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(error.message);
    }
  };
  const words = STOP_LEVELS[level ?? sent ?? "stop"];
  return (
    <Dialog
      title={sent === null ? `${words.verb} ${name}?` : `Ending ${name}`}
      onClose={onClose}
      className="w-[336px] p-4"
    >
      <p className="mt-1.5 text-body text-t2">
        {sent === null || level !== null ? words.text(formatCount(step)) : STOP_LEVELS[sent].waiting}
      </p>
      {problem !== null && (
        <p role="alert" className="mt-1.5 text-bad">
          {problem}
        </p>
      )}
      <div className="mt-3 flex justify-end gap-2">
        <Button data-autofocus onClick={onClose}>
          {sent === null ? (paused ? "Keep paused" : "Keep running") : "Close"}
        </Button>
        <Button
          look="danger-filled"
          busy={sent !== null && level === null ? STOP_LEVELS[sent].busy : null}
          onClick={() => level !== null && void end(level)}
        >
          {`${words.verb} run`}
        </Button>
      </div>
    </Dialog>
  );
}
