/** The end of what an ended run printed, by line; warnings and tracebacks stand out. */
import { useQuery } from "@tanstack/react-query";
import { useLayoutEffect, useMemo, useRef } from "react";
import type { ApiError } from "@/api/client";
import { readConsole } from "@/api/runs";
import type { ConsolePart, RunRow } from "@/api/types";
import { formatCount, formatTime } from "@/lib/format";
import { useUrlChoice } from "@/lib/urlState";
import { Button, IconButton, Panel, type PanelState, panelState, Segmented } from "@/ui";
import { NOTHING_PRINTED } from "@/ui/nothingPrinted";
import { type PrintedLine, printedLines } from "./stopText";

interface KeptConsoleProps {
  runId: string;
  run: Pick<RunRow, "started_at" | "ended_at"> | undefined;
  large: boolean;
  onLarge: () => void;
}

const TAIL_BYTES = 256 << 10;
const NONE: readonly PrintedLine[] = [];
const TONES: Record<PrintedLine["tone"], string> = {
  plain: "text-t2",
  warn: "bg-warn-soft text-warn",
  bad: "bg-bad-soft text-bad",
};

export default function KeptConsole({ runId, run, large, onLarge }: KeptConsoleProps) {
  const query = useQuery<ConsolePart, ApiError>({
    queryKey: ["console", runId],
    queryFn: ({ signal }) => readConsole(runId, { tail: TAIL_BYTES }, signal),
    retry: (failures, error) => error.status !== 403 && failures < 2,
  });
  const { data, error } = query;
  const [show, setShow] = useUrlChoice("lines", ["all", "warnings"]);
  const lines = useMemo(() => (data ? printedLines(data.text, data.line) : NONE), [data]);
  const marked = lines.filter(({ tone }) => tone !== "plain");
  const warnings = countGroups(lines);
  const shown = show === "warnings" ? marked : lines;
  return (
    <Panel
      title="Console"
      fact={data && lines.length > 0 ? factOf(lines, data) : undefined}
      tools={
        <>
          <Segmented
            label="Which lines"
            value={show}
            choices={[
              { value: "all", label: "All" },
              {
                value: "warnings",
                label: (
                  <>
                    Warnings <span className="text-t3">{warnings}</span>
                  </>
                ),
                disabledReason: warnings === 0 ? "There are none" : undefined,
              },
            ]}
            onChange={setShow}
          />
          <IconButton
            icon={large ? "shrink" : "expand"}
            label={large ? "Restore size" : "Enlarge"}
            onClick={onLarge}
          />
        </>
      }
      state={stateOf(data, error)}
      className="h-full"
    >
      <Lines lines={shown} />
      <footer className="flex h-11 shrink-0 items-center gap-4 border-t border-line px-3 whitespace-nowrap">
        <div className="min-w-0 flex-1">
          <div className="flex gap-4">
            {run?.started_at != null && <Fact label="Started" value={formatTime(run.started_at)} />}
            {run?.ended_at != null && <Fact label="Ended" value={formatTime(run.ended_at)} />}
          </div>
          {data?.of === "python" && (
            <p className="text-label text-t3">Output of C code and subprocesses is not captured</p>
          )}
        </div>
        <Button look="ghost" small onClick={() => void copy(shown)}>
          Copy
        </Button>
      </footer>
    </Panel>
  );
}

function Fact({ label, value }: { label: string; value: string }) {
  return (
    <span className="text-t3">
      {label} <span className="font-medium text-text">{value}</span>
    </span>
  );
}

function Lines({ lines }: { lines: readonly PrintedLine[] }) {
  const scroller = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: other lines have another end
  useLayoutEffect(() => {
    const container = scroller.current;
    if (container) container.scrollTop = container.scrollHeight;
  }, [lines]);
  return (
    <div
      ref={scroller}
      role="log"
      aria-label="Console of the run"
      aria-live="off"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
      tabIndex={0}
      data-keys="own"
      className="min-h-0 flex-1 overflow-auto"
    >
      <div className="min-w-fit pb-1 font-mono">
        {lines.map(({ number, text, tone }, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other name, and never move
          <div key={index} className={`flex min-h-6 items-center gap-3 px-3 whitespace-pre ${TONES[tone]}`}>
            {number !== null && <span className="w-8 shrink-0 text-right text-t3 select-none">{number}</span>}
            <span>{text}</span>
          </div>
        ))}
      </div>
    </div>
  );
}

/** Runs of lines with a tone: a warning of two lines is one. */
function countGroups(lines: readonly PrintedLine[]): number {
  return lines.filter(({ tone }, index) => tone !== "plain" && lines[index - 1]?.tone !== tone).length;
}

function factOf(lines: readonly PrintedLine[], { start }: ConsolePart): string {
  const last = lines.at(-1)?.number ?? null;
  if (start === 0 || last === null) return start === 0 ? `${formatCount(lines.length)} lines` : "last part";
  return `last ${formatCount(lines.length)} of ${formatCount(last)} lines`;
}

async function copy(lines: readonly PrintedLine[]): Promise<void> {
  await navigator.clipboard.writeText(lines.map(({ text }) => text).join("\n"));
}

function stateOf(data: ConsolePart | undefined, error: ApiError | null): PanelState {
  if (error?.status === 403) return { kind: "unavailable", text: error.message };
  return panelState(
    { data, error },
    { what: "the console", empty: ({ text }) => (text === "" ? NOTHING_PRINTED : null) },
  );
}
