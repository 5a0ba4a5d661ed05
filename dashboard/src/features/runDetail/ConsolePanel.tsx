/** What the run's process printed; it follows the end until one scrolls up. */
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { ApiError } from "@/api/client";
import { readConsole } from "@/api/runs";
import { asPrinted, type ConsoleText, EMPTY_CONSOLE, withPart } from "@/lib/consoleText";
import { downloadText } from "@/lib/download";
import { formatBytes } from "@/lib/format";
import { Button, IconButton, Panel, type PanelState, panelState } from "@/ui";
import { NOTHING_PRINTED } from "@/ui/nothingPrinted";

interface ConsolePanelProps {
  runId: string;
  live: boolean;
}

const TAIL_BYTES = 65_536;
const ASK_MS = 1_000;
/** This near to the end still counts as the end. */
const NEAR_PX = 24;

export default function ConsolePanel({ runId, live }: ConsolePanelProps) {
  const { console: printed, known, error } = useConsole(runId, live);
  const [follows, setFollows] = useState(true);
  const scroller = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: new text moves the end
  useLayoutEffect(() => {
    const container = scroller.current;
    if (follows && container) container.scrollTop = container.scrollHeight;
  }, [printed, follows]);
  const onScroll = () => {
    const container = scroller.current;
    if (container)
      setFollows(container.scrollHeight - container.scrollTop - container.clientHeight < NEAR_PX);
  };
  return (
    <Panel
      title="Console"
      fact={known ? `${formatBytes(printed.end)}${printed.cut ? ", last part" : ""}` : undefined}
      stale={known && error !== null ? "not up to date" : null}
      className="h-full"
      tools={
        <>
          {!follows && (
            <Button small icon="arrowDown" onClick={() => setFollows(true)}>
              Follow
            </Button>
          )}
          <IconButton
            icon="download"
            label="Save the shown output"
            disabledReason={printed.text === "" ? "Nothing was printed" : null}
            onClick={() => downloadText("console.txt", printed.text, "text/plain")}
          />
        </>
      }
      state={stateOf(known, printed.text, error)}
    >
      <div
        ref={scroller}
        onScroll={onScroll}
        role="log"
        aria-label="Console of the run"
        aria-live="off"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
        data-keys="own"
        className="min-h-0 flex-1 overflow-auto px-3 pb-2"
      >
        <pre className="font-mono text-t2">{asPrinted(printed.text)}</pre>
      </div>
    </Panel>
  );
}

/** The end of the console, continued each second while the run lives. */
function useConsole(runId: string, live: boolean) {
  const [printed, setPrinted] = useState<ConsoleText>(EMPTY_CONSOLE);
  const [known, setKnown] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const end = useRef(0);
  useEffect(() => {
    const closing = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async () => {
      try {
        const from = end.current > 0 ? { after: end.current } : { tail: TAIL_BYTES };
        const part = await readConsole(runId, from, closing.signal);
        if (part.text !== "" || end.current === 0) setPrinted((before) => withPart(before, part));
        end.current = part.end;
        setKnown(true);
        setError(null);
      } catch (problem) {
        if (closing.signal.aborted) return;
        setError(problem instanceof Error ? problem : new Error(String(problem)));
        if (isRefusal(problem)) return; // Asked again, the answer would be the same.
      }
      // One that has ended is read once more, for its last words.
      if (live && !closing.signal.aborted) timer = setTimeout(() => void ask(), ASK_MS);
    };
    void ask();
    return () => {
      closing.abort();
      clearTimeout(timer);
    };
  }, [runId, live]);
  return { console: printed, known, error };
}

const isRefusal = (problem: unknown) => problem instanceof ApiError && problem.status === 403;

function stateOf(known: boolean, text: string, error: Error | null): PanelState {
  if (!known && isRefusal(error)) return { kind: "unavailable", text: error?.message ?? "" };
  return panelState(
    { data: known ? text : null, error },
    { what: "the console", empty: (printed) => (printed === "" ? NOTHING_PRINTED : null) },
  );
}
