/** The breakpoints of an ended run with their hits, and where it stopped; a stop shows what was kept of it. */
import { useState } from "react";
import type { BreakpointOut, Stop } from "@/api/types";
import { formatCount, plural } from "@/lib/format";
import { Button, Icon, Panel, rowClass } from "@/ui";
import { causeText, keptOf, measureText } from "./stopText";

interface StopsPanelProps {
  breakpoints: readonly BreakpointOut[];
  stops: readonly Stop[];
  /** Id of the stop that the panels show; null for the end. */
  shown: string | null;
  onShow: (stop: string | null) => void;
  stale: string | null;
}

export default function StopsPanel({ breakpoints, stops, shown, onShow, stale }: StopsPanelProps) {
  const [chosen, setChosen] = useState<string | null>(null);
  const selected = stops.find(({ id }) => id === (chosen ?? shown)) ?? null;
  const hits = breakpoints.reduce((sum, one) => sum + one.hits, 0);
  return (
    <Panel
      title="Breakpoints"
      fact={
        breakpoints.length > 0 ? `${formatCount(breakpoints.length)}, with ${plural(hits, "hit")}` : undefined
      }
      stale={stale}
      className="h-full"
    >
      {breakpoints.length === 0 ? (
        <p className="px-3 pb-2 text-t3">None were set.</p>
      ) : (
        <ul aria-label="Breakpoints" className="max-h-[42%] shrink-0 overflow-y-auto pb-2">
          {breakpoints.map((breakpoint) => (
            <BreakpointLine key={breakpoint.id} breakpoint={breakpoint} />
          ))}
        </ul>
      )}
      <div className="flex min-h-9 shrink-0 items-center gap-2 border-t border-line px-3">
        <h3 className="font-semibold">Stops</h3>
        <span className="min-w-0 truncate text-t3">{stopsFact(stops)}</span>
      </div>
      <ul aria-label="Stops" className="min-h-0 flex-1 overflow-y-auto">
        {stops.map((stop) => (
          <StopLine
            key={stop.id}
            stop={stop}
            selected={stop === selected}
            shown={stop.id === shown}
            onChoose={() => setChosen(stop.id)}
            onShow={() => onShow(stop.id)}
          />
        ))}
      </ul>
      {stops.length > 0 && (
        <div className="flex h-11 shrink-0 items-center gap-2 px-3">
          <ShowButton selected={selected} shown={shown} onShow={onShow} />
        </div>
      )}
    </Panel>
  );
}

function stopsFact(stops: readonly Stop[]): string {
  if (stops.length === 0) return "the run was never paused";
  const kept = stops.filter((stop) => stop.kept).length;
  return kept === stops.length
    ? "evidence kept"
    : `evidence of ${formatCount(kept)} of ${formatCount(stops.length)}`;
}

function BreakpointLine({ breakpoint: { id, words, hits, action, enabled } }: { breakpoint: BreakpointOut }) {
  const quiet = enabled ? "" : "text-t3";
  return (
    <li className={`flex items-center gap-3 px-3 ${rowClass()}`}>
      <span className="w-3 text-t3">{id}</span>
      <span title={words} className={`min-w-0 flex-1 truncate ${quiet}`}>
        {words}
      </span>
      <span className={`whitespace-nowrap ${hits > 0 ? "" : "text-t3"}`}>
        {plural(hits, action === "mark" ? "mark" : "hit")}
      </span>
    </li>
  );
}

interface StopLineProps {
  stop: Stop;
  selected: boolean;
  shown: boolean;
  onChoose: () => void;
  onShow: () => void;
}

function StopLine({ stop, selected, shown, onChoose, onShow }: StopLineProps) {
  const taken = stop.current ? null : "rewound: on a timeline that was left";
  return (
    <li>
      <button
        type="button"
        aria-current={shown || undefined}
        aria-pressed={selected}
        title={taken ?? stop.reason ?? stop.breakpoint?.condition}
        onClick={onChoose}
        onDoubleClick={() => stop.kept && onShow()}
        className={`flex w-full items-center gap-2 px-3 text-left ${rowClass({ selected })} ${stop.current ? "" : "text-t3"}`}
      >
        <Icon
          name="diamond"
          size={11}
          filled={shown || selected}
          className={stop.kept ? "text-warn-mark" : "text-line3"}
        />
        <span className={`w-14 ${selected ? "font-medium" : ""}`}>{formatCount(stop.step)}</span>
        <span className="min-w-0 flex-1 truncate text-t3">{causeText(stop)}</span>
        <span className="whitespace-nowrap">{measureText(stop)}</span>
      </button>
    </li>
  );
}

function ShowButton({
  selected,
  shown,
  onShow,
}: {
  selected: Stop | null;
  shown: string | null;
  onShow: StopsPanelProps["onShow"];
}) {
  if (shown !== null && (selected === null || selected.id === shown)) {
    return (
      <>
        <Button onClick={() => onShow(null)}>Show the end</Button>
        <span className="min-w-0 truncate text-t3">this stop is shown</span>
      </>
    );
  }
  if (selected === null) return <span className="text-t3">Choose a stop to see its batch and layers.</span>;
  const reason = selected.kept
    ? null
    : "Nothing is left of this stop: only its first and newest ones are kept";
  return (
    <>
      <Button disabledReason={reason} onClick={() => onShow(selected.id)}>
        Show {formatCount(selected.step)}
      </Button>
      <span className="min-w-0 truncate text-t3">{selected.kept ? keptOf(selected) : "not kept"}</span>
    </>
  );
}
