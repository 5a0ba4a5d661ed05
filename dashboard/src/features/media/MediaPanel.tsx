/** What a run logged beside numbers: pictures, texts, histograms and tables by name, with one slider over their steps. */
import { useMemo } from "react";
import { useMediaList } from "@/api/media";
import { formatCount, plural } from "@/lib/format";
import { useTheme } from "@/lib/theme";
import { useUrlState } from "@/lib/urlState";
import { Button, Field, Icon, Panel, type PanelState, panelState } from "@/ui";
import { MediaCard } from "./MediaCard";
import { allSteps, indexAt, inOrder, namedLike } from "./media";

interface MediaPanelProps {
  runId: string;
  live: boolean;
  stale?: string | null;
}

const NOTHING: PanelState = {
  kind: "empty",
  title: "Only numbers were logged",
  text: (
    <>
      Pictures, texts, lists of numbers and tables appear here with their steps:{" "}
      <code className="font-mono">run.log(samples=images)</code>.
    </>
  ),
};

export default function MediaPanel({ runId, live, stale }: MediaPanelProps) {
  const { data, error } = useMediaList(runId, live);
  const [filter, setFilter] = useUrlState("find", "");
  const [chosen, setChosen] = useUrlState("media_step", "");
  const theme = useTheme();
  const groups = useMemo(() => inOrder(data?.groups ?? []), [data]);
  const shown = useMemo(() => namedLike(groups, filter), [groups, filter]);
  const steps = useMemo(() => allSteps(shown), [shown]);
  const step = /^\d+$/.test(chosen) ? Number(chosen) : null;
  const state = panelState(
    { data, error: error?.message ?? null },
    { what: "the media", empty: () => (groups.length === 0 ? NOTHING : null) },
  );
  if (state.kind !== "data") return <Panel title="Media" className="h-full" state={state} />;
  return (
    <section aria-label="Media" className="flex h-full min-h-0 flex-col gap-2">
      <header className="flex min-h-9 shrink-0 flex-wrap items-center gap-x-3 rounded-control bg-surface px-3">
        <h2 className="font-semibold">Media</h2>
        <span className="text-t3">
          {shown.length < groups.length ? `${formatCount(shown.length)} of ` : ""}
          {plural(groups.length, "name")}
        </span>
        {stale && <span className="text-warn">{stale}</span>}
        <StepSlider
          steps={steps}
          index={indexAt(steps, step) ?? 0}
          isNewest={step === null}
          onStep={(next) => setChosen(next === null ? "" : String(next))}
        />
        <span className="relative ml-auto">
          <Icon name="filter" size={14} className="pointer-events-none absolute top-[5px] left-1.5 text-t3" />
          <Field
            small
            data-filter=""
            label="Filter media by name"
            placeholder="Filter by name"
            value={filter}
            onChange={setFilter}
            onRestore={() => setFilter("")}
            className="w-40 pl-6.5 font-normal"
          />
        </span>
      </header>
      {shown.length === 0 && (
        <p className="px-3 text-t2">Nothing has “{filter}” in its name. Esc in the filter shows all.</p>
      )}
      <div
        className={`grid min-h-0 flex-1 grid-flow-dense auto-rows-max grid-cols-[repeat(auto-fill,minmax(min(380px,100%),1fr))] gap-2 overflow-auto ${stale ? "stale" : ""}`}
      >
        {shown.map((group) => (
          <MediaCard key={group.id} runId={runId} group={group} step={step} theme={theme} />
        ))}
      </div>
    </section>
  );
}

interface StepSliderProps {
  steps: readonly number[];
  index: number;
  /** Whether it follows the newest item. */
  isNewest: boolean;
  /** Null for the newest. */
  onStep: (step: number | null) => void;
}

/** Walks through the steps at which anything was logged; at its end it follows the run. */
function StepSlider({ steps, index, isNewest, onStep }: StepSliderProps) {
  const last = steps.length - 1;
  const text = formatCount(steps[index]);
  return (
    <div className="flex min-w-60 flex-1 items-center gap-2">
      <label className="flex min-w-0 flex-1 items-center gap-2">
        Step
        <input
          type="range"
          min={0}
          max={Math.max(last, 0)}
          step={1}
          value={index}
          aria-valuetext={text}
          onChange={(event) => {
            const next = Number(event.target.value);
            onStep(next >= last ? null : (steps[next] ?? null));
          }}
          className="h-6 min-w-0 flex-1 accent-[var(--accent)]"
        />
        <span className="min-w-14 text-right font-medium">{text}</span>
      </label>
      <Button
        small
        look="ghost"
        disabledReason={isNewest ? "The newest ones are shown" : null}
        onClick={() => onStep(null)}
      >
        Newest
      </Button>
    </div>
  );
}
