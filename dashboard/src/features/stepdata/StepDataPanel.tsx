/** The Step tab's place for step data: the first table, or the key one chose. */
import { useState } from "react";
import { useRunState, useVerb } from "@/api/hooks";
import type { StepDataOut } from "@/api/types";
import type { Sort } from "@/charts/DataTable";
import { hasEnded } from "@/lib/allowed";
import { useLive } from "@/lib/store";
import { useTheme } from "@/lib/theme";
import { useUrlState } from "@/lib/urlState";
import { Panel, StepAction } from "@/ui";
import { KeyList } from "./KeyList";
import { StepDataView } from "./StepDataView";
import { readSort, sortText } from "./sortText";
import { pushesNothing, useChosenKey, useStepEntry, useStepKeys } from "./useStepEntry";

interface StepDataPanelProps {
  /** Whether the list of keys stands beside the value. */
  browser?: boolean;
  stale: string | null;
}

export function StepDataPanel({ browser = false, stale }: StepDataPanelProps) {
  const keys = useStepKeys();
  const [chosen, setChosen] = useUrlState("key", "");
  const [filter, setFilter] = useUrlState("filter", "");
  const [order, setOrder] = useUrlState("order", "");
  const [full, setFull] = useState<string | null>(null);
  const [shown, setShown] = useState<StepDataOut | null>(null);
  const key = useChosenKey(keys, chosen, shown);
  const latest = useStepEntry(key, full === key && key !== null);
  if (latest.data !== null && latest.data !== shown) setShown(latest.data);
  const running = !(useRunState((state) => state.parked) ?? false);
  const theme = useTheme();
  const entry = shown?.key === key ? shown : null;

  let view = <Panel title={key ?? "Step data"} className="h-full" />;
  if (keys.length === 0) view = <NothingCaptured />;
  else if (latest.error && entry === null) {
    view = (
      <Panel
        title={key ?? "Step data"}
        className="h-full"
        state={{ kind: "error", title: "The data did not come", text: latest.error.message }}
      />
    );
  } else if (entry) {
    view = (
      <StepDataView
        {...{ entry, filter, stale, running, theme }}
        keys={browser ? [] : keys}
        onKey={setChosen}
        onFilter={setFilter}
        sort={readSort(order)}
        onSort={(sort: Sort) => setOrder(sortText(sort))}
        onFull={() => setFull(entry.key)}
      />
    );
  }
  if (!browser || keys.length === 0) return view;
  return (
    <div className="grid h-full grid-cols-[240px_minmax(0,1fr)] gap-2 max-[719px]:grid-cols-1 max-[719px]:grid-rows-[132px_minmax(0,1fr)]">
      <KeyList keys={keys} selected={key} onSelect={setChosen} stale={stale} />
      {view}
    </div>
  );
}

function NothingCaptured() {
  const step = useVerb("step");
  const ended = useRunState(hasEnded) ?? false;
  const watchedFrom = useLive((live) => live.watchedFrom);
  const silent = useRunState((state) => pushesNothing(watchedFrom, state)) ?? false;
  if (ended) {
    const text = "This run ended without captures for its last step.";
    return <Panel title="Step data" className="h-full" state={{ kind: "unavailable", text }} />;
  }
  if (silent) return <PushesNothing />;
  const action = <StepAction verb={step} onStep={() => void step.run({ n: 1 })} />;
  return (
    <Panel
      title="Step data"
      className="h-full"
      state={{
        kind: "empty",
        title: "Nothing captured for this step",
        text: "Captures start while this page is open. Take one step to see what the run pushes.",
        action,
      }}
    />
  );
}

/** Steps were taken while somebody watched, and there is still nothing. */
function PushesNothing() {
  return (
    <Panel
      title="Step data"
      className="h-full"
      state={{
        kind: "empty",
        title: "No step data",
        text: (
          <>
            This run pushes no step data. Push some with{" "}
            <code className="font-mono">run.controller.capture_step_data(key, data)</code>.
          </>
        ),
      }}
    />
  );
}
