/** All panels of this step in columns; a hook's panel needs no code of the page. */
import { useMemo, useState } from "react";
import { useUrlState } from "@/lib/urlState";
import { useRunState } from "@/live/hooks";
import { IconButton, LivePanelSlot, Panel } from "@/ui";
import type { Sort } from "@/ui/table/DataTable";
import { EntryPanel } from "./EntryPanel";
import { NothingCaptured } from "./NothingCaptured";
import { usePanelKeys, useStepKeys } from "./panelKeys";
import { LargePanel } from "./StepDataPanel";

interface PanelsGridProps {
  stale: string | null;
}

export default function PanelsGrid({ stale }: PanelsGridProps) {
  const all = useStepKeys();
  const keys = usePanelKeys();
  const [large, setLarge] = useUrlState("panel", "");
  const hinted = useRunState((state) => Object.keys(state.step_data_panels).join("\n")) ?? "";
  const ordered = useMemo(() => {
    const known = new Set(hinted.split("\n"));
    return [...keys.filter((key) => known.has(key)), ...keys.filter((key) => !known.has(key))];
  }, [keys, hinted]);
  if (!all.length) return <NothingCaptured />;
  if (all.includes(large))
    return <LargePanel stepKey={large} onKey={setLarge} onBack={() => setLarge("")} stale={stale} />;
  if (!keys.length) return <NothingFurther />;
  return (
    <div
      className={`grid grid-cols-2 gap-2 min-[1800px]:grid-cols-3 max-[1199px]:auto-rows-[320px] max-[1199px]:grid-cols-1 ${ordered.length <= 4 ? "h-full auto-rows-[minmax(0,1fr)]" : "auto-rows-[280px]"}`}
    >
      {ordered.map((key) => (
        <LivePanelSlot key={key} title={key}>
          <GridPanel stepKey={key} stale={stale} onLarge={() => setLarge(key)} />
        </LivePanelSlot>
      ))}
    </div>
  );
}

/** The one table there is stands on the Step tab. */
function NothingFurther() {
  return (
    <Panel
      title="Panels"
      className="h-full"
      state={{
        kind: "empty",
        title: "No further panels",
        text: (
          <>
            The layers are on the Step tab. What hooks push appears here:{" "}
            <code className="font-mono">run.show(midstep.hooks.DeadUnits())</code>.
          </>
        ),
      }}
    />
  );
}

interface GridPanelProps {
  stepKey: string;
  stale: string | null;
  onLarge: () => void;
}

function GridPanel({ stepKey, stale, onLarge }: GridPanelProps) {
  const [filter, setFilter] = useState("");
  const [sort, setSort] = useState<Sort | null>(null);
  return (
    <EntryPanel
      {...{ stepKey, stale, filter, sort }}
      onFilter={setFilter}
      onSort={setSort}
      corner={<IconButton icon="expand" label={`Maximize ${stepKey}`} onClick={onLarge} />}
    />
  );
}
