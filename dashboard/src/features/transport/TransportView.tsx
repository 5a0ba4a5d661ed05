/** The strip above the tabs: verbs left, the way so far right. */
import { type ReactNode, useState } from "react";
import type { StateOut } from "@/api/types";
import { useSize } from "@/charts/useSize";
import { formatCount } from "@/lib/format";
import { RUN_TO_FIELD } from "@/live/stepInputs";
import { Button, NumberField } from "@/ui";
import { progressOf, thinned } from "./progress";
import { RepeatedNote } from "./RepeatedNote";

/** A verb as its button shows it. */
export interface Control {
  onClick: () => void;
  busy: string | null;
  disabledReason: string | null;
}

export interface TransportViewProps {
  /** Which way the toggle goes now. */
  toggle: "pause" | "resume";
  onToggle: Control;
  onBack: Control;
  onStep: Control;
  onSteps: Control;
  onRunTo: Control;
  onStop: Control;
  n: number;
  onN: (n: number) => void;
  target: number;
  onTarget: (target: number) => void;
  targetError: string | null;
  /** What a pause waits for, once it has taken too long. */
  waitingFor: string | null;
  /** The way so far: where the run can go back to, one to choose a step on. */
  track: ReactNode;
}

export function TransportView(props: TransportViewProps) {
  const { toggle, onToggle, onBack, onStep, onStop, waitingFor } = props;
  const pausing = toggle === "pause";
  return (
    <div className={ROW}>
      <Button icon="back" keys="←" {...onBack}>
        Back
      </Button>
      <Button
        look="filled"
        icon={pausing ? "pause" : "play"}
        iconFilled
        keys="Space"
        className="min-w-[129px] justify-center"
        {...onToggle}
      >
        {pausing ? "Pause" : "Resume"}
      </Button>
      <Button icon="step" keys="→" {...onStep}>
        Step
      </Button>
      <StepsGroup {...props} />
      <RunToGroup {...props} />
      <Button look="danger" icon="stop" iconFilled {...onStop}>
        Stop
      </Button>
      {waitingFor && <span className="min-w-0 truncate text-t3">Waiting: {waitingFor}</span>}
      <Divider />
      {props.track}
    </div>
  );
}

export const Divider = () => <span className="mx-3 h-5 w-px shrink-0 bg-line max-[899px]:hidden" />;

/** Below 900 px the verbs wrap, and the way so far has a line of its own; between lines there is room for an error. */
export const ROW =
  "flex min-h-13 min-w-0 flex-1 flex-wrap items-center gap-x-2 gap-y-3 max-[899px]:py-1 max-[719px]:gap-x-1.5";

function StepsGroup({ n, onN, onSteps }: TransportViewProps) {
  const [problem, setProblem] = useState<string | null>(null);
  return (
    <span className="flex shrink-0 gap-px">
      <NumberField
        label="How many steps"
        value={n}
        onChange={(value) => value !== null && value >= 1 && onN(value)}
        onApply={onSteps.onClick}
        check={(value) => (value < 1 ? "Enter 1 or more" : null)}
        onProblem={setProblem}
        errorPosition="under-end"
        className="w-11 rounded-r-none"
      />
      <Button
        tooltip={`Run ${formatCount(n)} steps, then pause`}
        className="rounded-l-none"
        {...onSteps}
        disabledReason={onSteps.disabledReason ?? problem}
      >
        steps
      </Button>
    </span>
  );
}

function RunToGroup({ target, onTarget, onRunTo, targetError }: TransportViewProps) {
  const [problem, setProblem] = useState<string | null>(null);
  return (
    <span className="flex shrink-0 gap-px">
      <NumberField
        id={RUN_TO_FIELD}
        label="Step to run to"
        value={target}
        onChange={(value) => value !== null && onTarget(value)}
        onApply={onRunTo.onClick}
        error={targetError}
        onProblem={setProblem}
        errorPosition="under"
        className={`rounded-r-none ${target >= 1e6 ? "w-[100px]" : "w-[72px]"}`}
      />
      <Button
        icon="runTo"
        tooltip="Run to this step, then pause"
        className="rounded-l-none"
        {...onRunTo}
        disabledReason={onRunTo.disabledReason ?? problem}
      >
        Run to
      </Button>
    </span>
  );
}

export function ProgressTrack({ state, stale }: { state: StateOut; stale: boolean }) {
  const [container, { width }] = useSize<HTMLDivElement>();
  const { share, fact, ticks } = progressOf(
    state.step,
    state.total_steps,
    state.steps_per_s,
    state.state === "running" || state.state === "stepping",
  );
  return (
    <div className={`flex min-w-0 flex-1 items-center gap-3 max-[899px]:basis-full ${stale ? "stale" : ""}`}>
      <div ref={container} className="min-w-0 flex-1">
        <div className="flex justify-between gap-3 text-label text-t3">
          <span>Progress</span>
          {state.repeated && <RepeatedNote {...state.repeated} />}
          <span className="truncate">{fact}</span>
        </div>
        <div
          role="progressbar"
          aria-label="Progress of the run"
          aria-valuemin={0}
          aria-valuemax={state.total_steps ?? undefined}
          aria-valuenow={share === null ? undefined : state.step}
          className="my-px h-1 overflow-hidden rounded-full bg-s3"
        >
          {share !== null && (
            <div className="h-full rounded-full bg-accent" style={{ width: `${share * 100}%` }} />
          )}
        </div>
        <div className="flex h-4 justify-between text-label text-t3">
          {thinned(ticks, width).map((tick) => (
            <span key={tick}>{tick}</span>
          ))}
        </div>
      </div>
      <span className="text-bar font-semibold whitespace-nowrap">{formatCount(state.step)}</span>
    </div>
  );
}
