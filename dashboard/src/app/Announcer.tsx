import { useEffect, useState } from "react";
import { formatCount } from "@/lib/format";
import { useToasts } from "@/lib/toasts";
import { useRunState } from "@/live/hooks";
import { useRun } from "@/live/store";
import { STATE_LOOKS } from "@/ui";

/** Says state changes and messages to screen readers: politely, and at once only what failed. Never ticking numbers. */
export function Announcer() {
  const [polite, setPolite] = useState("");
  const [urgent, setUrgent] = useState("");
  const state = useRunState((run) => run.state);
  const message = useToasts(({ toasts }) => toasts.at(-1));

  useEffect(() => {
    if (state === undefined) return;
    const run = useRun.getState().state;
    const evidence = run?.breakpoint;
    const reason = evidence ? `, stopped by breakpoint ${evidence.breakpoint}: ${evidence.condition}` : "";
    const words = `${STATE_LOOKS[state].word} at step ${formatCount(run?.step)}${reason}`;
    if (state === "failed" || state === "killed") setUrgent(words);
    else setPolite(words);
  }, [state]);

  useEffect(() => {
    if (message === undefined) return;
    const words = `${message.title} ${message.text ?? ""}`;
    if (message.kind === "failed") setUrgent(words);
    else setPolite(words);
  }, [message]);

  return (
    <div className="sr-only">
      <div aria-live="polite">{polite}</div>
      <div aria-live="assertive">{urgent}</div>
    </div>
  );
}
