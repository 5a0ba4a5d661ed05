/** What happened in a run and who intervened, newest first. */

import { useMemo, useRef, useState } from "react";
import { type EventRecord, readEvents } from "@/api/runs";
import { downloadText } from "@/lib/download";
import { formatCount, formatTime, NONE, plural } from "@/lib/format";
import { NOTHING_TO_EXPORT } from "@/lib/messages";
import { useLatestRequest } from "@/live/latestRequest";
import { Panel, type PanelState, panelState, Segmented } from "@/ui";
import { csvOf } from "@/ui/export/csv";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { useFixedRows } from "@/ui/table/useFixedRows";
import { type EventLine, eventLine } from "./events";

interface EventsPanelProps {
  runId: string;
  /** Changes when there may be more. */
  version: string;
}

const TONES = { plain: "", intervention: "text-accent", bad: "text-bad" };

export default function EventsPanel({ runId, version }: EventsPanelProps) {
  const { data, error } = useEvents(runId, version);
  const [kind, setKind] = useState<"all" | "interventions">("all");
  const lines = useMemo(() => (data ?? []).map(eventLine).reverse(), [data]);
  const loaded = data !== null;
  const shown = useMemo(
    () => (kind === "all" ? lines : lines.filter(({ tone }) => tone !== "plain")),
    [lines, kind],
  );
  const { ref, rows, totalHeight } = useFixedRows({ count: shown.length });
  return (
    <Panel
      title="Events"
      fact={loaded ? plural(shown.length, "record") : undefined}
      className="h-full"
      tools={
        <>
          <Segmented
            label="Which events"
            value={kind}
            choices={[
              { value: "all", label: "All" },
              { value: "interventions", label: "Interventions" },
            ]}
            onChange={setKind}
          />
          <ExportMenu
            subject="events"
            disabledReason={shown.length === 0 ? NOTHING_TO_EXPORT : null}
            items={[{ label: "CSV, as listed", onSelect: () => save(shown) }]}
          />
        </>
      }
      state={stateOf(loaded, shown.length, error?.message ?? null)}
    >
      <div
        ref={ref}
        role="log"
        aria-label="Events of the run"
        aria-live="off"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
        data-keys="own"
        className="max-h-screen min-h-0 flex-1 overflow-y-auto pb-1"
      >
        <div className="relative" style={{ height: totalHeight }}>
          {rows.map(({ index, start }) => (
            <div
              key={shown[index]?.seq ?? index}
              className="absolute inset-x-0 top-0"
              style={{ transform: `translateY(${start}px)` }}
            >
              <Line line={shown[index] as EventLine} />
            </div>
          ))}
        </div>
      </div>
    </Panel>
  );
}

/** Records are only ever added, so only new ones are fetched. */
function useEvents(runId: string, version: string) {
  const known = useRef<EventRecord[]>([]);
  const load = async (_: string, signal: AbortSignal) => {
    known.current = await readEvents(runId, known.current, signal);
    return known.current;
  };
  return useLatestRequest(version, load, { intervalMs: 2_000 });
}

function Line({ line: { at, step, title, text, who, tone } }: { line: EventLine }) {
  return (
    <div className="grid h-6 grid-cols-[64px_64px_144px_minmax(0,1fr)_72px] items-center gap-x-3 px-3 hover:bg-s2">
      <span className="text-t3">{at === null ? NONE : formatTime(at)}</span>
      <span className="text-right">{step === null ? "" : formatCount(step)}</span>
      <span className={`truncate font-medium ${TONES[tone]}`}>{title}</span>
      <span className="truncate text-t2" title={text}>
        {text}
      </span>
      <span className="text-right text-t3">{who}</span>
    </div>
  );
}

const stateOf = (known: boolean, count: number, error: string | null): PanelState =>
  panelState(
    { data: known ? count : null, error },
    {
      what: "the events",
      empty: (events) =>
        events > 0
          ? null
          : { kind: "empty", title: "No events yet", text: "Epochs and commands appear here." },
    },
  );

function save(lines: readonly EventLine[]): void {
  const columns = (["seq", "at", "step", "title", "text", "who"] as const).map((name) => ({
    name,
    cells: lines.map((line) => line[name]),
  }));
  downloadText("events.csv", csvOf(columns), "text/csv");
}
