/** Where the clusters lie: a click or an arrow chooses one, and the pairs beside are those of it. */
import { useMemo, useRef, useState } from "react";
import { type DatasetMapOut, type DatasetOut, fromWire } from "@/api/types";
import { formatCount, formatFixed, formatPercent, plural } from "@/lib/format";
import { useTheme } from "@/lib/theme";
import { Panel, panelState } from "@/ui";
import { ExportMenu } from "@/ui/export/ExportMenu";
import { exportItems } from "@/ui/export/exportItems";
import { ClusterMap } from "./ClusterMap";
import { clusterColours, sizeOf } from "./curriculum";
import { type MapPoints, mapPoints } from "./mapPoints";

interface MapPanelProps {
  dataset: DatasetOut;
  map: DatasetMapOut | null;
  error: string | null;
  chosen: number | null;
  onChoose: (cluster: number, pair?: number) => void;
  pair: number | null;
}

export default function MapPanel(props: MapPanelProps) {
  const { dataset, map, error, chosen, onChoose, pair } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  const [hovered, setHovered] = useState<number | null>(null);
  const points = useMemo(() => (map === null ? null : mapPoints(map)), [map]);
  const colours = useMemo(() => clusterColours(dataset.clusters), [dataset]);
  const files = exportItems(
    `clusters-${dataset.name}`,
    () => canvas.current,
    () => columnsOf(dataset, map),
    () => ({ clusters: dataset.clusters, map }),
  );
  const fact = map && `${plural(map.questions.pair.length, "question")} of ${plural(map.of, "pair")}`;
  return (
    <Panel
      title="Clusters"
      fact={fact}
      tools={
        <ExportMenu subject="clusters" items={files} disabledReason={map ? null : "Nothing to export yet"} />
      }
      className="h-full"
      state={panelState({ data: map, error }, { what: "the map" })}
    >
      {points && map && (
        <>
          <ClusterMap
            label={`${plural(map.centroids.x.length, "cluster")} and ${plural(map.questions.pair.length, "question")} on the plane in which questions differ most.`}
            {...{ points, colours, chosen, onChoose, pair, theme }}
            axes={[axisName(1, map), axisName(2, map)]}
            onHover={setHovered}
            canvasRef={canvas}
          />
          <p className="truncate px-3 pb-2 text-t3">{readout(dataset, points, hovered, chosen)}</p>
        </>
      )}
    </Panel>
  );
}

function axisName(number: 1 | 2, { shares }: DatasetMapOut): string {
  return `component ${number}, ${formatPercent(fromWire(shares[number - 1]), 0)} of the variance`;
}

/** One line under the map, so that nothing pops up over it. */
function readout(
  { clusters }: DatasetOut,
  { pair, cluster, centroids }: MapPoints,
  hovered: number | null,
  chosen: number | null,
): string {
  if (hovered !== null && hovered < pair.length)
    return `pair ${formatCount(pair[hovered])}, cluster ${cluster[hovered]}`;
  const at = hovered === null ? chosen : hovered - pair.length;
  const pointed = at === null ? undefined : clusters.find((one) => one.cluster === at);
  if (pointed === undefined)
    return `${plural(centroids.x.length, "cluster")}, the six largest in colour. Click one to see its pairs.`;
  const { train, val, test } = pointed.pairs;
  return `cluster ${pointed.cluster}: ${plural(sizeOf(pointed), "pair")} (${formatCount(train ?? 0)} train, ${formatCount(val ?? 0)} val, ${formatCount(test ?? 0)} test), mean distance ${formatFixed(fromWire(pointed.mean_distance), 3)}`;
}

function columnsOf({ clusters }: DatasetOut, map: DatasetMapOut | null) {
  return [
    { name: "cluster", cells: clusters.map(({ cluster }) => cluster) },
    { name: "pairs", cells: clusters.map(sizeOf) },
    { name: "mean_distance", cells: clusters.map(({ mean_distance }) => fromWire(mean_distance)) },
    { name: "x", cells: (map?.centroids.x ?? []).map((value) => fromWire(value)) },
    { name: "y", cells: (map?.centroids.y ?? []).map((value) => fromWire(value)) },
  ];
}
