/** All panels of this step in columns; a hook's panel needs no code of the page. */
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { useUrlState } from "@/lib/urlState";
import { useRunState } from "@/live/hooks";
import { IconButton, PanelSlot } from "@/ui";
import type { Sort } from "@/ui/table/DataTable";
import { EntryPanel } from "./EntryPanel";
import { NothingCaptured } from "./NothingCaptured";
import { LargePanel } from "./StepDataPanel";
import { useStepKeys } from "./useStepEntry";

interface PanelsGridProps {
  stale: string | null;
}

export default function PanelsGrid({ stale }: PanelsGridProps) {
  const keys = useStepKeys();
  const [large, setLarge] = useUrlState("panel", "");
  const hinted = useRunState((state) => Object.keys(state.step_data_panels).join("\n")) ?? "";
  const ordered = useMemo(() => {
    const known = new Set(hinted.split("\n"));
    return [...keys.filter((key) => known.has(key)), ...keys.filter((key) => !known.has(key))];
  }, [keys, hinted]);
  if (!keys.length) return <NothingCaptured />;
  if (keys.includes(large))
    return <LargePanel stepKey={large} onKey={setLarge} onBack={() => setLarge("")} stale={stale} />;
  return (
    <div
      className={`grid grid-cols-2 gap-2 min-[1800px]:grid-cols-3 max-[1199px]:auto-rows-[320px] max-[1199px]:grid-cols-1 ${ordered.length <= 4 ? "h-full auto-rows-[minmax(0,1fr)]" : "auto-rows-[280px]"}`}
    >
      {ordered.map((key) => (
        <Seen key={key}>
          {(seen) => (
            <PanelSlot title={key}>
              <GridSlot stepKey={key} seen={seen} stale={stale} onLarge={() => setLarge(key)} />
            </PanelSlot>
          )}
        </Seen>
      ))}
    </div>
  );
}

interface GridSlotProps {
  stepKey: string;
  seen: boolean;
  stale: string | null;
  onLarge: () => void;
}

function GridSlot({ stepKey, seen, stale, onLarge }: GridSlotProps) {
  const [filter, setFilter] = useState("");
  const [sort, setSort] = useState<Sort | null>(null);
  return (
    <EntryPanel
      {...{ stepKey, seen, stale, filter, sort }}
      onFilter={setFilter}
      onSort={setSort}
      corner={<IconButton icon="expand" label={`Maximize ${stepKey}`} onClick={onLarge} />}
    />
  );
}

/** Tells its content whether it is in sight, so that only what is seen is fetched. */
function Seen({ children }: { children: (seen: boolean) => ReactNode }) {
  const container = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    const element = container.current;
    if (!element) return;
    const observer = new IntersectionObserver(([entry]) => setSeen(entry?.isIntersecting ?? false));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return (
    <div ref={container} className="min-h-0 min-w-0">
      {children(seen)}
    </div>
  );
}
