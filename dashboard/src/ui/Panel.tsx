import { createContext, type ReactNode, useContext } from "react";
import { Button, type ButtonProps } from "./Button";

export type PanelState =
  | { kind: "data" }
  | { kind: "loading"; count?: string; progress?: number; onCancel?: () => void }
  | { kind: "empty"; title: string; text: ReactNode; action?: ReactNode }
  | { kind: "error"; title: string; text: ReactNode; action?: ReactNode }
  | { kind: "unavailable"; text: ReactNode };

interface PanelProps {
  title: string;
  /** Stands in place of the title, where that is a choice; the title still names the panel. */
  titleShown?: ReactNode;
  /** One line of fact beside the title: "128 samples". */
  fact?: ReactNode;
  /** Says that what is shown is old: "12 s old", "computed at step 1,200". */
  stale?: string | null;
  /** Legend, segmented choice, icon buttons; export last. */
  tools?: ReactNode;
  state?: PanelState;
  /** Drawn under the header when there is data; it scrolls inside itself. */
  children?: ReactNode;
  className?: string;
  bodyClassName?: string;
  id?: string;
}

const DATA: PanelState = { kind: "data" };

/** What the panel inside leaves out, in one line of its header: "every 14th step". Empty where nothing is left out. */
export const PanelThinning = createContext("");

/** A choice that the panel inside shows first among its tools, where several share one place. */
export const PanelChoice = createContext<ReactNode>(null);

/** A panel: header of 36 px, then one of its states. */
export function Panel(props: PanelProps) {
  const { title, titleShown, fact, stale, tools, state = DATA, children } = props;
  const { className = "", bodyClassName = "", id } = props;
  const shownFact = state.kind === "loading" && state.count ? state.count : fact;
  const thinning = useContext(PanelThinning);
  const choice = useContext(PanelChoice);
  return (
    <section
      aria-label={title}
      id={id}
      className={`@container flex min-h-0 min-w-0 flex-col rounded-control bg-surface ${className}`}
    >
      <header className="flex min-h-9 shrink-0 items-center gap-2 px-3 @max-[550px]:flex-wrap @max-[550px]:gap-y-0">
        <h2 className="flex min-h-9 items-center font-semibold whitespace-nowrap">{titleShown ?? title}</h2>
        {shownFact && <span className="min-w-0 shrink-99 truncate text-t3">{shownFact}</span>}
        {thinning && (
          <span className="min-w-0 shrink-9 truncate text-t3" data-thinning="">
            {thinning}
          </span>
        )}
        {stale && <span className="whitespace-nowrap text-warn">{stale}</span>}
        <div
          data-tools=""
          className="ml-auto flex min-h-9 min-w-0 items-center gap-2 @max-[550px]:flex-wrap @max-[550px]:justify-end"
        >
          {choice}
          {state.kind === "loading" && state.onCancel ? (
            <Button look="ghost" small onClick={state.onCancel}>
              Cancel
            </Button>
          ) : (
            tools
          )}
        </div>
      </header>
      <div
        className={`relative flex min-h-0 flex-1 flex-col ${stale ? "stale" : ""} ${state.kind === "data" ? bodyClassName : ""}`}
        aria-busy={state.kind === "loading" || undefined}
      >
        <PanelBody state={state}>{children}</PanelBody>
      </div>
    </section>
  );
}

function PanelBody({ state, children }: { state: PanelState; children: ReactNode }) {
  switch (state.kind) {
    case "data":
      return children;
    case "loading":
      return <Loading progress={state.progress} />;
    case "unavailable":
      return <p className="px-3 py-1 text-t3">{state.text}</p>;
    default:
      return (
        <div className="px-3 py-1" role={state.kind === "error" ? "alert" : undefined}>
          <p className={`font-medium ${state.kind === "error" ? "text-bad" : ""}`}>{state.title}</p>
          <p className="mt-1 max-w-prose text-t2">{state.text}</p>
          {state.action && <div className="mt-3 flex gap-2">{state.action}</div>}
        </div>
      );
  }
}

function Loading({ progress }: { progress?: number }) {
  return (
    <div className="flex flex-col gap-2 px-3 py-2">
      <div className="h-1 overflow-hidden rounded-full bg-s3">
        {progress !== undefined && (
          <div
            className="h-full rounded-full bg-accent"
            style={{ width: `${Math.round(progress * 100)}%` }}
          />
        )}
      </div>
      {["70%", "86%", "52%"].map((width) => (
        <div key={width} className="h-2 rounded-full bg-s3" style={{ width }} />
      ))}
    </div>
  );
}

/** The small button that an empty or failed panel offers. */
export const PanelAction = (props: ButtonProps) => <Button small {...props} />;
