/** The steps one can return to, snapshots as notches, hits as diamonds; dragging the thumb goes back. */
import { type KeyboardEvent, type PointerEvent, useRef, useState } from "react";
import type { BreakpointOut, RewindOut } from "@/api/types";
import { useSize } from "@/charts/useSize";
import { formatCount } from "@/lib/format";
import { goBack } from "@/live/rewind";
import { LiveRepeatedNote } from "./RepeatedNote";
import { costText, factText, shareOf, stepAt, ticksOf } from "./rewind";

interface RewindTrackProps {
  rewind: RewindOut;
  breakpoints: readonly BreakpointOut[];
  /** Why one cannot go back now. */
  disabledReason: string | null;
  stale: boolean;
}

/** More notches than this would run into each other. */
const MAX_NOTCHES = 128;

export default function RewindTrack({ rewind, breakpoints, disabledReason, stale }: RewindTrackProps) {
  const [container, { width }] = useSize<HTMLDivElement>();
  const [wanted, setWanted] = useState<number | null>(null);
  const held = useRef(false);
  const off = disabledReason !== null;
  const first = rewind.first_step ?? rewind.step;
  const shown = wanted ?? rewind.step;
  const go = (step: number | null) => {
    setWanted(null);
    if (step !== null && step < rewind.step && !off) void goBack({ step });
  };
  const stepUnder = (event: PointerEvent<HTMLElement>) => {
    const { left } = event.currentTarget.getBoundingClientRect();
    return stepAt(rewind, (event.clientX - left) / Math.max(width, 1));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") return setWanted(null);
    if (event.key === "Enter") return go(wanted);
    const far = Math.max(1, Math.round((rewind.step - first) / 10));
    const by = { ArrowLeft: -1, ArrowRight: 1, PageDown: -far, PageUp: far, Home: first - shown }[event.key];
    if (by === undefined || off) return;
    event.preventDefault();
    setWanted(Math.min(Math.max(shown + by, first), rewind.step));
  };
  const hits = breakpoints
    .flatMap(({ id, hit_steps }) => hit_steps.map((step) => ({ id, step })))
    .filter(({ step }) => step >= first && step <= rewind.step);
  return (
    <div className={`flex min-w-0 flex-1 items-center gap-3 max-[899px]:basis-full ${stale ? "stale" : ""}`}>
      <div className="min-w-0 flex-1">
        <div className="flex justify-between gap-3 text-label text-t3">
          <span>Rewind</span>
          <LiveRepeatedNote />
          <span className={`truncate ${wanted === null ? "" : "font-medium text-text"}`}>
            {wanted === null ? factText(rewind) : costText(rewind, wanted)}
          </span>
        </div>
        <div
          ref={container}
          role="slider"
          tabIndex={0}
          aria-label="Rewind. Arrows choose a step, Enter goes back to it"
          aria-disabled={off || undefined}
          aria-valuemin={first}
          aria-valuemax={rewind.step}
          aria-valuenow={shown}
          aria-valuetext={wanted === null ? formatCount(shown) : costText(rewind, wanted)}
          title={disabledReason ?? undefined}
          onKeyDown={onKeyDown}
          onBlur={() => setWanted(null)}
          onPointerDown={(event) => {
            if (off) return;
            held.current = true;
            event.currentTarget.setPointerCapture(event.pointerId);
            setWanted(stepUnder(event));
          }}
          onPointerMove={(event) => held.current && setWanted(stepUnder(event))}
          onPointerUp={(event) => {
            if (!held.current) return;
            held.current = false;
            go(stepUnder(event));
          }}
          className="relative my-px h-3 touch-none"
        >
          <span className="absolute inset-x-0 top-1 h-1 rounded-full bg-s3" />
          {rewind.snapshot_steps.slice(-MAX_NOTCHES).map((step) => (
            <span
              key={step}
              className="absolute top-1 h-1 w-1 -translate-x-1/2 bg-line3"
              style={{ left: `${shareOf(rewind, step) * 100}%` }}
            />
          ))}
          {hits.map(({ id, step }) => (
            <span
              key={`${id} ${step}`}
              title={`Breakpoint ${id} at ${formatCount(step)}`}
              className="absolute top-0.5 size-2 -translate-x-1/2 rotate-45 border border-warn-mark bg-surface"
              style={{ left: `${shareOf(rewind, step) * 100}%` }}
            />
          ))}
          <span
            className={`absolute top-0 size-3 -translate-x-1/2 rounded-full ${off ? "bg-line3" : "bg-accent"}`}
            style={{ left: `${shareOf(rewind, shown) * 100}%` }}
          />
        </div>
        <div className="relative h-4 text-label text-t3">
          {ticksOf(rewind).map((tick, index) => (
            <span
              key={tick}
              className={`absolute ${index === 0 ? "" : "-translate-x-1/2"}`}
              style={{ left: `${shareOf(rewind, tick) * 100}%` }}
            >
              {width > 280 || index % 2 === 0 ? formatCount(tick) : ""}
            </span>
          ))}
        </div>
      </div>
      <span className="text-bar font-semibold whitespace-nowrap">{formatCount(rewind.step)}</span>
    </div>
  );
}
