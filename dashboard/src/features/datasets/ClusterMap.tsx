/** Centroids and sampled questions on a canvas: colour by cluster, numbers on the centroids, one cluster chosen. */
import {
  type KeyboardEvent,
  type PointerEvent,
  type RefObject,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import type { Theme } from "@/charts/colors/viridis";
import {
  pointAfter,
  pointUnder,
  positionOf,
  type ScatterFrame,
  scatterFrame,
} from "@/charts/points/scatterHit";
import { useSize } from "@/charts/useSize";
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
  const { label, points, chosen, onChoose, onHover, theme } = props;
  const [container, size] = useSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const frame = useMemo(() => scatterFrame(points, size, false, false), [points, size]);
  useLayoutEffect(() => {
    const element = canvas.current;
    if (!element || size.width <= 0) return;
    const paint = () => draw(element, frame, props);
    paint();
    if (document.fonts.status !== "loaded") void document.fonts.ready.then(paint);
    props.canvasRef.current = element;
  });
  const hover = (point: number | null) => {
    if (point === hovered) return;
    setHovered(point);
    onHover(point);
  };
  const under = ({ nativeEvent }: PointerEvent) =>
    pointUnder(frame, points, nativeEvent.offsetX, nativeEvent.offsetY);
  const pick = (point: number) => {
    const pair = points.pair[point];
    if (pair === undefined) onChoose(point - points.pair.length);
    else onChoose(points.cluster[point] as number, pair);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const next = pointAfter(event.key, points.centroids, chosen);
    if (next === null) return;
    event.preventDefault();
    onChoose(next);
  };
  return (
    <div
      ref={container}
      role="img"
      aria-label={`${label}${chosen === null ? "" : ` Cluster ${chosen} is chosen.`} Arrows choose the next cluster.`}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrows move the choice, which is read out
      tabIndex={0}
      data-keys="own"
      data-theme-drawn={theme}
      onKeyDown={onKeyDown}
      className="relative min-h-0 min-w-0 flex-1"
    >
      <canvas
        ref={canvas}
        onPointerMove={(event) => hover(under(event))}
        onPointerLeave={() => hover(null)}
        onPointerDown={(event) => {
          const hit = under(event);
          if (hit !== null) pick(hit);
        }}
        className={`absolute inset-0 block ${hovered === null ? "" : "cursor-pointer"}`}
        style={{ width: size.width, height: size.height }}
      />
    </div>
  );
}

interface Pen {
  context: CanvasRenderingContext2D;
  frame: ScatterFrame;
  read: (name: string) => string;
}

function draw(element: HTMLCanvasElement, frame: ScatterFrame, props: ClusterMapProps): void {
  const ratio = devicePixelRatio;
  element.width = Math.round(frame.width * ratio);
  element.height = Math.round(frame.height * ratio);
  const context = element.getContext("2d");
  if (!context) return;
  context.scale(ratio, ratio);
  const style = getComputedStyle(element);
  const pen: Pen = { context, frame, read: (name) => style.getPropertyValue(`--${name}`).trim() };
  drawGrid(pen, props.axes);
  drawQuestions(pen, props);
  drawCentroids(pen, props);
}

/** The axes of a projection have no unit, so lines without numbers, and how much each tells. */
function drawGrid({ context, frame, read }: Pen, [xLabel, yLabel]: readonly [string, string]): void {
  const { left, right, top, bottom, xAxis, yAxis } = frame;
  context.strokeStyle = read("grid");
  context.fillStyle = read("t3");
  context.font = FONT;
  context.beginPath();
  for (const { value } of xAxis.ticks) {
    const x = Math.round(left + xAxis.unit(value) * (right - left)) + 0.5;
    context.moveTo(x, top);
    context.lineTo(x, bottom);
  }
  for (const { value } of yAxis.ticks) {
    const y = Math.round(bottom - yAxis.unit(value) * (bottom - top)) + 0.5;
    context.moveTo(left, y);
    context.lineTo(right, y);
  }
  context.stroke();
  context.textAlign = "center";
  context.textBaseline = "bottom";
  context.fillText(xLabel, (left + right) / 2, frame.height - 6);
  context.save();
  context.translate(8, (top + bottom) / 2);
  context.rotate(-Math.PI / 2);
  context.textBaseline = "top";
  context.fillText(yLabel, 0, 0);
  context.restore();
}

function colourOf(cluster: number, { colours }: ClusterMapProps, read: Pen["read"]): string {
  const slot = colours.get(cluster) ?? COLOURED;
  return slot < COLOURED ? read(`series-${slot + 1}`) : read("line3");
}

/** All questions, those of the chosen cluster over the others and larger. */
function drawQuestions({ context, frame, read }: Pen, props: ClusterMapProps): void {
  const { points, chosen, pair } = props;
  const passes = chosen === null ? [null] : [false, true];
  for (const mine of passes) {
    for (let at = 0; at < points.pair.length; at += 1) {
      const cluster = points.cluster[at] as number;
      if (mine !== null && (cluster === chosen) !== mine) continue;
      const position = positionOf(frame, points, at);
      if (position === null) continue;
      context.globalAlpha = mine === null ? 0.75 : mine ? 1 : 0.25;
      context.fillStyle = colourOf(cluster, props, read);
      context.beginPath();
      context.arc(position[0], position[1], mine ? 3 : 2.25, 0, 2 * Math.PI);
      context.fill();
    }
  }
  context.globalAlpha = 1;
  const ringed = pair === null ? -1 : points.pair.indexOf(pair);
  const position = ringed < 0 ? null : positionOf(frame, points, ringed);
  if (position === null) return;
  context.strokeStyle = read("text");
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
function drawCentroids({ context, frame, read }: Pen, props: ClusterMapProps): void {
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
    context.fillStyle = read("surface");
    context.strokeStyle = cluster === chosen ? read("accent") : colourOf(cluster, props, read);
    context.lineWidth = cluster === chosen ? 3 : 2;
    context.beginPath();
    context.arc(x, y, named.has(cluster) ? RADIUS : 4, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
    if (!named.has(cluster)) continue;
    context.fillStyle = read("text");
    context.font = cluster > 99 ? `600 ${FONT}` : NAME;
    context.fillText(String(cluster), x, y + 0.5);
  }
  context.globalAlpha = 1;
}
