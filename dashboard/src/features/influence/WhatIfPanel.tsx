/** Other advantages: what the update would have done to the selected sequence, the preconditioner held fixed. */

import { useMemo, useRef } from "react";
import { fromWire } from "@/api/types";
import { signed } from "@/charts/colors/signed";
import { css } from "@/charts/colors/viridis";
import { formatCount } from "@/lib/format";
import { FULL_KERNEL_NOT_STORED } from "@/lib/messages";
import { useTheme } from "@/lib/theme";
import { Button, NumberField, Panel } from "@/ui";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { exportItems } from "@/ui/export/exportItems";
import { formatNats } from "./formatNats";
import { type Change, type Contribution, changesUnder, type InfluenceData } from "./influenceData";

interface WhatIfPanelProps {
  influence: InfluenceData;
  row: number;
  contributions: readonly Contribution[];
  changed: ReadonlyMap<string, number>;
  onChange: (changed: ReadonlyMap<string, number>) => void;
}

/** Sliders for the largest contributors; those that were changed stay in the list. */
const SLIDERS = 12;
/** Width of a slider's thumb in pixels, as browsers draw it. */
const THUMB = 16;

export default function WhatIfPanel({ influence, row, contributions, changed, onChange }: WhatIfPanelProps) {
  const container = useRef<HTMLDivElement>(null);
  const was = useMemo(() => changesUnder(influence, NOTHING), [influence]);
  const now = useMemo(() => changesUnder(influence, changed), [influence, changed]);
  const evaluated = influence.batch.sequences[row];
  if (influence.kernel === null || evaluated === undefined)
    return <NoKernel kept={influence.batch.has_kernel} />;
  const listed = contributions.filter(
    ({ sequence }, index) => index < SLIDERS || changed.has(sequence.sequence_id),
  );
  const limit = Math.max(
    2,
    ...listed.map(({ sequence }) => Math.abs(fromWire(sequence.advantage) ?? 0) * 1.25),
  );
  const set = (id: string, value: number, true_: number | null) => {
    const next = new Map(changed);
    if (value === true_) next.delete(id);
    else next.set(id, value);
    onChange(next);
  };
  const files = exportItems(
    `what-if-${evaluated.sequence_id}`,
    () => container.current,
    () => [
      { name: "sequence_id", cells: influence.batch.sequences.map(({ sequence_id }) => sequence_id) },
      { name: "as_trained", cells: was.map(({ total }) => total) },
      { name: "what_if", cells: now.map(({ total }) => total) },
    ],
    () => ({ advantages: Object.fromEntries(changed), held_fixed: "preconditioner", was, now }),
  );
  const tools = (
    <>
      {changed.size > 0 && (
        <Button small look="ghost" icon="back" onClick={() => onChange(NOTHING)}>
          Reset {formatCount(changed.size)}
        </Button>
      )}
      <ExportMenu subject="what if" items={files} />
    </>
  );
  return (
    <Panel title="What if" fact={heldFixed(influence)} tools={tools} className="h-full">
      <div ref={container} className="flex min-h-0 flex-1 gap-4 px-3 pb-2">
        <ul className="min-w-0 flex-1 overflow-auto px-1">
          {listed.map(({ sequence }) => (
            <AdvantageRow
              key={sequence.sequence_id}
              id={sequence.sequence_id}
              original={fromWire(sequence.advantage)}
              value={changed.get(sequence.sequence_id) ?? fromWire(sequence.advantage)}
              usable={fromWire(sequence.normaliser) !== null}
              limit={limit}
              onChange={set}
            />
          ))}
        </ul>
        <Outcome was={was} now={now} row={row} changed={changed} />
      </div>
    </Panel>
  );
}

const NOTHING: ReadonlyMap<string, number> = new Map();

/** What is held fixed, and so how far the answer carries. */
function heldFixed({ result }: InfluenceData): string {
  return result.preconditioner === "adam_post"
    ? "other advantages, preconditioner held fixed"
    : "other advantages; the preconditioner does not depend on them";
}

interface AdvantageRowProps {
  id: string;
  original: number | null;
  value: number | null;
  usable: boolean;
  limit: number;
  onChange: (id: string, value: number, original: number | null) => void;
}

function AdvantageRow({ id, original, value, usable, limit, onChange }: AdvantageRowProps) {
  const other = value !== original;
  const rounded = Math.round((value ?? 0) * 100) / 100;
  const theme = useTheme();
  const share = (at: number) => (Math.min(Math.max(at, -limit), limit) + limit) / (2 * limit);
  // The middle of the thumb never leaves the track, so places are counted from half a thumb on.
  const placed = (at: number) => `calc(${THUMB / 2}px + (100% - ${THUMB}px) * ${share(at)})`;
  const [low, high] = [Math.min(share(value ?? 0), 0.5), Math.max(share(value ?? 0), 0.5)];
  if (!usable || value === null) {
    return (
      <li className="flex h-7 items-center gap-3 text-t3">
        <span className="w-20 shrink-0 font-mono">{id}</span>cannot change: no normaliser stored
      </li>
    );
  }
  return (
    <li className="flex h-7 items-center gap-3">
      <span className="w-20 shrink-0 truncate font-mono">{id}</span>
      <span className="relative flex h-6 min-w-0 flex-1 items-center">
        <span className="absolute inset-x-0 h-1 rounded-full bg-s3" />
        <span
          className="absolute h-1"
          style={{
            left: `calc(${THUMB / 2}px + (100% - ${THUMB}px) * ${low})`,
            width: `calc((100% - ${THUMB}px) * ${high - low})`,
            background: css(signed((value ?? 0) > 0 ? 0.55 : -0.55, theme)),
          }}
        />
        <span className="absolute h-3 w-px bg-line3" style={{ left: "50%" }} />
        {original !== null && (
          <span className="absolute -ml-px h-4 w-0.5 bg-t2" style={{ left: placed(original) }} />
        )}
        <input
          type="range"
          aria-label={`Advantage of ${id}`}
          min={-limit}
          max={limit}
          step={0.01}
          value={value}
          onChange={(event) => onChange(id, event.target.valueAsNumber, original)}
          onDoubleClick={() => original !== null && onChange(id, original, original)}
          className="relative h-6 w-full appearance-none rounded-chip bg-transparent accent-accent outline-offset-0!"
        />
      </span>
      <NumberField
        small
        label={`Advantage of ${id} as a number`}
        value={rounded}
        whole={false}
        errorPosition="under-end"
        onChange={(next) => next !== null && Number.isFinite(next) && onChange(id, next, original)}
        className={`w-16 text-right ${other ? "text-accent!" : ""}`}
      />
    </li>
  );
}

interface OutcomeProps {
  was: readonly Change[];
  now: readonly Change[];
  row: number;
  changed: ReadonlyMap<string, number>;
}

function Outcome({ was, now, row, changed }: OutcomeProps) {
  const [before, after] = [was[row], now[row]];
  if (before === undefined || after === undefined) return null;
  const largest = Math.max(
    ...[before, after].map(({ kernel, rest }) => Math.abs(kernel) + Math.abs(rest)),
    1e-300,
  );
  const up = (changes: readonly Change[]) => changes.filter(({ total }) => total > 0).length;
  const [only] = [...changed.entries()];
  const title =
    changed.size === 1 && only
      ? `${only[1] === 0 ? "Without" : "With other"} ${only[0]}`
      : "With these advantages";
  return (
    <div className="w-50 shrink-0">
      <p className="flex items-baseline gap-2">
        <span className="text-t3">Δ log π</span>
        <output className="text-result font-semibold" aria-live="polite" data-figure="what-if">
          {formatNats(after.total)}
        </output>
        {changed.size > 0 && <span className="text-accent">{formatNats(after.total - before.total)}</span>}
      </p>
      <Terms title="As trained" change={before} largest={largest} faint />
      <Terms title={changed.size > 0 ? title : "Nothing changed yet"} change={after} largest={largest} />
      <p className="mt-2 flex gap-3 text-label text-t3">
        <span className="flex items-center gap-1.5">
          <span className="size-2 rounded-mark bg-series-2" />
          kernel
        </span>
        <span className="flex items-center gap-1.5">
          <span className="size-2 rounded-mark bg-series-5" />
          momentum, decay
        </span>
      </p>
      <p className="mt-2 text-t3">
        Moved up: <span className="font-medium text-text">{formatCount(up(now))}</span> of{" "}
        {formatCount(now.length)}
        {changed.size > 0 && <>, were {formatCount(up(was))}</>}
      </p>
    </div>
  );
}

interface TermsProps {
  title: string;
  change: Change;
  largest: number;
  faint?: boolean;
}

/** The two terms beside each other, each as long as it is large. */
function Terms({ title, change, largest, faint = false }: TermsProps) {
  const width = (value: number) => ({ width: `${(Math.abs(value) / largest) * 100}%` });
  return (
    <div className="mt-1.5">
      <p className="flex justify-between gap-2">
        <span className="truncate text-t3">{title}</span>
        <span className="font-medium">{formatNats(change.total)}</span>
      </p>
      <p className={`mt-0.5 flex h-2 gap-px ${faint ? "opacity-60" : ""}`} aria-hidden="true">
        <span className="rounded-mark bg-series-2" style={width(change.kernel)} />
        <span className="rounded-mark bg-series-5" style={width(change.rest)} />
      </p>
    </div>
  );
}

function NoKernel({ kept }: { kept: boolean }) {
  const text = (
    <>
      Other advantages need the kernel of all pairs. Run the plan with{" "}
      <code className="font-mono">full_kernel: true</code>.
    </>
  );
  return (
    <Panel
      title="What if"
      className="h-full"
      state={kept ? { kind: "loading" } : { kind: "empty", title: FULL_KERNEL_NOT_STORED, text }}
    />
  );
}
