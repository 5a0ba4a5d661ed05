/** Centroids and sampled questions as a scatter: colour by cluster, numbers on the centroids, one cluster chosen. */
import type { RefObject } from "react";
import type { Theme } from "@/charts/colors/viridis";
import { Scatter, type ScatterPen } from "@/charts/points/Scatter";
import { positionOf } from "@/charts/points/scatterHit";
import { COLOURED } from "./curriculum";
import { apartFrom, type MapPoints } from "./mapPoints";

interface ClusterMapProps {
  label: string;
  points: MapPoints;
  /** Colour slot of a cluster. */
  colours: ReadonlyMap<number, number>;
  axes: readonly [x: string, y: string];
  /** The chosen cluster. */
  chosen: number | null;
  /** A question that was clicked brings its pair along. */
  onChoose: (cluster: number, pair?: number) => void;
  /** The pair whose question is ringed. */
  pair: number | null;
  onHover: (point: number | null) => void;
  theme: Theme;
  canvasRef: RefObject<HTMLCanvasElement | null>;
}

const FONT = "11px Inter, system-ui, sans-serif";
const NAME = "600 15px Inter, system-ui, sans-serif";

export function ClusterMap(props: ClusterMapProps) {
  const { label, points, axes, chosen, onChoose, onHover, theme, canvasRef } = props;
  const pick = (point: number) => {
    const pair = points.pair[point];
    if (pair === undefined) onChoose(point - points.pair.length);
    else onChoose(points.cluster[point] as number, pair);
  };
  return (
    <Scatter
      label={label}
      hint={`${chosen === null ? "" : ` Cluster ${chosen} is chosen.`} Arrows choose the next cluster.`}
      x={points.x}
      y={points.y}
      xLabel={axes[0]}
      yLabel={axes[1]}
      tickLabels={false}
      logX={false}
      logY={false}
      colour={null}
      nameOf={String}
      named={NONE}
      selected={null}
      onSelect={pick}
      walk={{ points: points.centroids, from: chosen, onWalk: (cluster) => onChoose(cluster) }}
      onHover={onHover}
      paintPoints={(pen) => {
        drawQuestions(pen, props);
        drawCentroids(pen, props);
      }}
      theme={theme}
      canvasRef={canvasRef}
    />
  );
}

const NONE: readonly number[] = [];

function colourOf(cluster: number, { colours }: ClusterMapProps, token: ScatterPen["token"]): string {
  const slot = colours.get(cluster) ?? COLOURED;
  return slot < COLOURED ? token(`series-${slot + 1}`) : token("line3");
}

/** All questions, those of the chosen cluster over the others and larger. */
function drawQuestions({ context, frame, token }: ScatterPen, props: ClusterMapProps): void {
  const { points, chosen, pair } = props;
  const passes = chosen === null ? [null] : [false, true];
  for (const mine of passes) {
    for (let at = 0; at < points.pair.length; at += 1) {
      const cluster = points.cluster[at] as number;
      if (mine !== null && (cluster === chosen) !== mine) continue;
      const position = positionOf(frame, points, at);
      if (position === null) continue;
      context.globalAlpha = mine === null ? 0.75 : mine ? 1 : 0.25;
      context.fillStyle = colourOf(cluster, props, token);
      context.beginPath();
      context.arc(position[0], position[1], mine ? 3 : 2.25, 0, 2 * Math.PI);
      context.fill();
    }
  }
  context.globalAlpha = 1;
  const ringed = pair === null ? -1 : points.pair.indexOf(pair);
  const position = ringed < 0 ? null : positionOf(frame, points, ringed);
  if (position === null) return;
  context.strokeStyle = token("text");
  context.lineWidth = 2;
  context.beginPath();
  context.arc(position[0], position[1], 6, 0, 2 * Math.PI);
  context.stroke();
}

const RADIUS = 11;

/** The chosen cluster, then the coloured ones, then the others. */
function byWeight({ points, chosen, colours }: ClusterMapProps): number[] {
  const weight = (cluster: number) => (cluster === chosen ? -1 : (colours.get(cluster) ?? COLOURED));
  return points.centroids.x.map((_, cluster) => cluster).sort((a, b) => weight(a) - weight(b) || a - b);
}

/** A ring in the cluster's colour with its number in it; a small one where the number has no room. */
function drawCentroids({ context, frame, token }: ScatterPen, props: ClusterMapProps): void {
  const { points, chosen } = props;
  context.textAlign = "center";
  context.textBaseline = "middle";
  const order = byWeight(props);
  const positions = points.centroids.x.map((_, cluster) =>
    positionOf(frame, points, points.pair.length + cluster),
  );
  const named = apartFrom(positions, order, 2 * RADIUS + 1);
  const last = [...order].reverse().sort((a, b) => Number(named.has(a)) - Number(named.has(b)));
  for (const cluster of last) {
    const position = positions[cluster];
    if (!position) continue;
    const [x, y] = position;
    context.globalAlpha = chosen === null || cluster === chosen ? 1 : 0.45;
    context.fillStyle = token("surface");
    context.strokeStyle = cluster === chosen ? token("accent") : colourOf(cluster, props, token);
    context.lineWidth = cluster === chosen ? 3 : 2;
    context.beginPath();
    context.arc(x, y, named.has(cluster) ? RADIUS : 4, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
    if (!named.has(cluster)) continue;
    context.fillStyle = token("text");
    context.font = cluster > 99 ? `600 ${FONT}` : NAME;
    context.fillText(String(cluster), x, y + 0.5);
  }
  context.globalAlpha = 1;
}
