/** Live · Features: the forces on each row of a tensor, how alike the rows are, and what became of the watched ones. */
import { lazy, useMemo } from "react";
import { useAction } from "@/lib/actions";
import { formatCount } from "@/lib/format";
import { rowNames } from "@/lib/rowNames";
import { useUrlState } from "@/lib/urlState";
import { useForces, useRowPanel } from "@/live/forces";
import { useNoCommandsReason } from "@/live/hooks";
import { addWatches, useWatchedRows, useWatchList } from "@/live/watches";
import { PanelSlot } from "@/ui";
import { PanelArea } from "../Frame";

const DebugForceViz = lazy(() => import("@/features/forces/DebugForceViz"));
const HeatmapPanel = lazy(() => import("@/features/heatmap/HeatmapPanel"));
const FeatureTrajectory = lazy(() => import("@/features/trajectories/FeatureTrajectory"));

export default function FeaturesTab({ stale }: { stale: string | null }) {
  const [tensor, setTensor] = useUrlState("tensor", "");
  const [feature, setFeature] = useUrlState("feature", "");
  const { data: forces, error } = useForces(tensor === "" ? null : tensor);
  const panel = useRowPanel(forces?.tensor ?? null);
  const names = useMemo(() => rowNames(panel), [panel]);
  const { sources } = useWatchList();
  const watched = useWatchedRows(forces?.tensor ?? null);
  const noCommands = useNoCommandsReason();
  const selected = /^\d+$/.test(feature) ? Number(feature) : null;
  const watchable = noCommands === null && forces !== null && sources.includes(forces.tensor);
  const watch = (row: number) => void addWatches([row], forces?.tensor ?? null);
  const select = (row: number) => setFeature(String(row));
  useAction({
    id: "watch-feature",
    title: "Watch the selected row",
    group: "Panels",
    keys: "W",
    words: "follow trajectory row",
    disabledReason:
      selected === null ? "Select a row first" : watchable ? null : (noCommands ?? "Nothing to watch yet"),
    run: () => selected !== null && watch(selected),
  });
  // What could not be had for this step is said, and the older one stays at half strength.
  const old = stale ?? (error && forces ? `of step ${formatCount(forces.step)}` : null);
  const shared = { forces, names, stale: old, onSelect: select, onWatch: watchable ? watch : null };
  return (
    <PanelArea tab="features">
      <div className="grid h-full min-h-[560px] grid-cols-2 grid-rows-[minmax(352px,1.63fr)_minmax(200px,1fr)] gap-2 max-[1199px]:h-auto max-[1199px]:grid-cols-1 max-[1199px]:grid-rows-[380px_380px_260px]">
        <PanelSlot title="Forces">
          <DebugForceViz
            {...shared}
            error={error?.message ?? null}
            chosen={tensor === "" ? null : tensor}
            onTensor={setTensor}
            selected={selected}
            watched={watched}
            rule={panel?.status ?? null}
            shape={panel?.shape ?? null}
          />
        </PanelSlot>
        <PanelSlot title="Cosine similarity">
          <HeatmapPanel {...shared} />
        </PanelSlot>
        <div className="col-span-2 min-h-0 max-[1199px]:col-span-1">
          <PanelSlot title="Trajectories">
            <FeatureTrajectory
              tensor={forces?.tensor ?? null}
              names={names}
              rule={panel?.status ?? null}
              onSelect={select}
              stale={stale}
            />
          </PanelSlot>
        </div>
      </div>
    </PanelArea>
  );
}
