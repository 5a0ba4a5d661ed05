/** Lines on uPlot: it lays out axes and scales and draws the paths; marks, names and the cursor are ours. */
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { faded } from "@/charts/colors/faded";
import type { Theme } from "@/charts/colors/viridis";
import { linearSplits, logLabels, logSplits, sameDecimals } from "@/charts/ticks";
import { pngOf } from "@/ui/export/png";
import { type Column, type DrawnLine, drawnLine, stretches, valueRange } from "./columns";
import { drawDecorations, drawUnderlay } from "./decorations";
import {
  type Line,
  labelRoom,
  lineUnder,
  type Mark,
  type Pointed,
  type Range,
  snapToPoint,
  type Threshold,
} from "./lines";
import { drawPointer, type PointerState } from "./pointer";

/** Everything that one picture shows. */
export interface Frame {
  lines: readonly Line[];
  /** A new theme has new colours in the same variables. */
  theme: Theme;
  /** Shown part of the x axis. */
  range: Range;
  logY: boolean;
  /** Diamonds above the lines; room is kept for them unless this is left out. */
  marks?: readonly Mark[];
  thresholds: readonly Threshold[];
  /** Whether values that are not finite are marked on the axis; off where a gap only means "not measured". */
  gapMarks: boolean;
  /** A value of the x axis in words; `span` is the length of the axis. An empty text leaves the tick out. */
  xText: (value: number, span: number) => string;
  /** Values beyond are drawn as triangles on the edge; null shows all values. */
  limits?: Range | null;
  /** In what unit ticks of x are round over such a span: 60 for minutes of seconds. */
  xUnit: (span: number) => number;
}

/** The theme's colours where the chart is. */
export type Token = (name: string) => string;

const FONT = "11px Inter, system-ui, sans-serif";
const AXIS_WIDTH = 32;
const AXIS_HEIGHT = 22;
/** Between the labels and the lines. */
const AXIS_GAP = 8;
/** Least distance between two labels of x. */
const X_SPACE = 64;
/** Room above the lines, with and without diamonds. */
const TOP_WITH_MARKS = 26;
const TOP = 8;
/** Width of a digit of the axes. */
const LETTER = 6.4;
const OFF = { show: false } as const;

export class LinePlot {
  private plot: uPlot | null = null;
  private frame: Frame | null = null;
  private structure = "";
  private drawn: DrawnLine[] = [];
  private values: Range = [0, 1];
  private token: Token = () => "";

  constructor(
    private readonly host: HTMLElement,
    private readonly overlay: HTMLCanvasElement,
  ) {}

  /** Draws a frame; costs one pass over the visible points. */
  draw(frame: Frame): void {
    this.frame = frame;
    const { clientWidth: width, clientHeight: height } = this.host;
    if (width < 16 || height < 16) return;
    const columns = Math.max(64, width - AXIS_WIDTH - labelRoom(frame.lines, width));
    this.drawn = inDrawOrder(frame.lines).map((line) => drawnLine(line, frame.range, columns, frame.logY));
    this.values = valueRange(this.drawn, frame.thresholds, frame.logY, frame.limits);
    const structure = structureOf(frame, width);
    if (this.plot === null || structure !== this.structure) this.build(structure);
    // At once, not in a microtask: the cursor is drawn on the new scale right after.
    else
      this.plot.batch((plot: uPlot) => {
        if (plot.width !== width || plot.height !== height) plot.setSize({ width, height });
        plot.setData(this.columns());
      });
  }

  /** Draws the same again, once fonts have come. */
  redraw(): void {
    this.plot?.redraw(false, true);
  }

  /** Draws cursor and selection over the lines, which stay as they are. */
  point(state: PointerState): void {
    if (this.plot === null || this.frame === null) return;
    drawPointer(this.overlay, this.plot, this.token, this.drawn, this.frame.logY, state);
  }

  /** The area of the lines within the host, in CSS pixels. */
  get area(): { left: number; top: number; width: number; height: number } | null {
    if (this.plot === null) return null;
    const ratio = uPlot.pxRatio;
    const { left, top, width, height } = this.plot.bbox;
    return { left: left / ratio, top: top / ratio, width: width / ratio, height: height / ratio };
  }

  /** x at a distance from the left edge of the host; null outside of the lines. */
  xAt(left: number, slack = 0.02): number | null {
    const area = this.area;
    if (this.plot === null || area === null || area.width <= 0) return null;
    const share = (left - area.left) / area.width;
    return share < -slack || share > 1 + slack ? null : this.plot.posToVal(left - area.left, "x");
  }

  /** The point that a pointer means: of the nearest line, or of any line at this x. */
  pointedAt(left: number, top: number, byLine: boolean): Pointed | null {
    const x = this.xAt(left);
    if (x === null || this.frame === null) return null;
    if (!byLine) return snapToPoint(this.frame.lines, x);
    return this.lineAt(left, top);
  }

  /** The point of the line within reach of the pointer. */
  lineAt(left: number, top: number): Pointed | null {
    const { plot, frame, area } = this;
    const x = this.xAt(left);
    if (plot === null || frame === null || area === null || x === null) return null;
    const projection = {
      px: (value: number) => area.left + plot.valToPos(value, "x"),
      py: (value: number) => area.top + plot.valToPos(value, "y"),
      logY: frame.logY,
    };
    return lineUnder(frame.lines, projection, x, left, top);
  }

  /** The picture as it is drawn, without the cursor. */
  async png(): Promise<Blob | null> {
    return this.plot ? pngOf(this.plot.ctx.canvas) : null;
  }

  destroy(): void {
    this.plot?.destroy();
    this.plot = null;
  }

  /** A faceted plot has x and y for each series: the band, the measured values and the line of each line. */
  private columns(): uPlot.AlignedData {
    const facets = this.drawn.flatMap(({ x, y, raw, low, high }): unknown[] => [
      ...(low && high ? [[x, high, low]] : []),
      ...(raw ? [[x, raw]] : []),
      [x, y],
    ]);
    // The types of uPlot know aligned columns only.
    return [null, [[], []], ...facets] as unknown as uPlot.AlignedData;
  }

  private build(structure: string): void {
    this.plot?.destroy();
    this.structure = structure;
    this.token = tokensOf(this.host);
    this.plot = new uPlot(this.options(), this.columns(), this.host);
    this.plot.batch(() => undefined);
  }

  private options(): uPlot.Options {
    const { logY, marks, lines } = this.frame as Frame;
    const { clientWidth: width, clientHeight: height } = this.host;
    return {
      mode: 2,
      width,
      height,
      padding: [marks ? TOP_WITH_MARKS : TOP, labelRoom(lines, width), 0, 0],
      legend: OFF,
      cursor: OFF,
      scales: {
        x: { time: false, range: () => wideEnough(this.frame?.range) },
        y: { distr: logY ? 3 : 1, range: () => [...this.values] as [number, number] },
      },
      axes: this.axes(logY),
      // The second is always there: a faceted plot needs one.
      series: [{}, hidden(), ...this.drawn.flatMap((one) => this.series(one))],
      hooks: {
        drawAxes: [(plot) => this.decorate(plot, drawUnderlay)],
        draw: [(plot) => this.decorate(plot, drawDecorations)],
      },
    };
  }

  private series({ line, raw, low }: DrawnLine): uPlot.Series[] {
    const { colour, dashed, faint, abandoned, unnamed } = line;
    const alone = this.drawn.filter((one) => !one.line.abandoned).length === 1;
    const width = faint || abandoned || dashed ? 1 : alone ? 2 : 1.5;
    return [
      ...(low ? [{ ...hidden(), fill: faded(colour, alone ? 10 : 18), paths: bandPath }] : []),
      ...(raw ? [{ ...hidden(), stroke: faded(colour, alone && !unnamed ? 70 : 35), width: 1 }] : []),
      { ...hidden(), stroke: colour, width, ...(dashed ? { dash: [3, 3] } : {}) },
    ];
  }

  private axes(logY: boolean): uPlot.Axis[] {
    const axis = { font: FONT, stroke: this.token("t3"), ticks: { show: false } };
    return [
      {
        ...axis,
        size: AXIS_HEIGHT,
        gap: 6,
        grid: { show: false },
        splits: (plot, _, low, high) => this.xSplits(plot, low, high),
        filter: (_, splits) => splits,
        values: (plot, splits) => this.xLabels(plot, splits),
      },
      {
        ...axis,
        size: (_, values) => axisWidth([...(values ?? []), ...this.thresholdLabels()]),
        gap: AXIS_GAP,
        grid: { stroke: this.token("grid"), width: 1 },
        splits: (plot, _, low, high) => {
          const most = mostValueTicks(plot.bbox.height / uPlot.pxRatio);
          return logY ? logSplits(low, high, most) : linearSplits(low, high, most);
        },
        filter: (_, splits) => splits,
        values: (plot, splits) =>
          this.valueLabels(plot, logY ? logLabels(splits) : sameDecimals(splits), splits),
      },
    ];
  }

  private xSplits(plot: uPlot, low: number, high: number): number[] {
    const unit = this.frame?.xUnit(high - low) ?? 1;
    const most = plot.bbox.width / uPlot.pxRatio / X_SPACE;
    return linearSplits(low / unit, high / unit, most).map((split) => split * unit);
  }

  /** Labels of x; one that would be cut off at the edge, or repeat the one before, is left out. */
  private xLabels(plot: uPlot, splits: number[]): string[] {
    const [from, to] = wideEnough(this.frame?.range);
    const room = plot.bbox.width / uPlot.pxRatio / (to - from);
    const right = labelRoom(this.frame?.lines ?? [], this.host.clientWidth);
    let before = "";
    return splits.map((split) => {
      const label = this.frame?.xText(split, to - from) ?? "";
      const isCut = (to - split) * room + right < label.length * LETTER * 0.5;
      if (label === before || isCut) return "";
      before = label;
      return label;
    });
  }

  /** Labels of values; the number of a threshold takes the place of one that is near. */
  private valueLabels(plot: uPlot, labels: string[], splits: number[]): string[] {
    const limits = (this.frame?.thresholds ?? []).map(({ value }) => plot.valToPos(value, "y"));
    return labels.map((label, index) => {
      const top = plot.valToPos(splits[index] as number, "y");
      return limits.some((limit) => Math.abs(limit - top) <= 10) ? "" : label;
    });
  }

  private thresholdLabels(): string[] {
    return (this.frame?.thresholds ?? []).map(({ label }) => label);
  }

  private decorate(plot: uPlot, draw: typeof drawDecorations): void {
    if (this.frame !== null) draw(plot, this.token, this.drawn, this.frame);
  }
}

function tokensOf(element: Element): Token {
  const style = getComputedStyle(element);
  return (name) => style.getPropertyValue(`--${name}`).trim();
}

/** Faint and dashed lines first, so that the others lie over them. */
function inDrawOrder(lines: readonly Line[]): Line[] {
  const isBack = ({ faint, abandoned, dashed }: Line) => faint || abandoned || dashed;
  return [...lines.filter(isBack), ...lines.filter((line) => !isBack(line))];
}

/** What makes a new plot necessary; other changes are new data. */
function structureOf({ lines, theme, logY, marks }: Frame, width: number): string {
  const looks = inDrawOrder(lines).map(({ colour, dashed, faint, raw, band }) => [
    colour,
    dashed,
    faint,
    raw !== undefined,
    band !== undefined,
  ]);
  return JSON.stringify([theme, logY, marks !== undefined, labelRoom(lines, width), looks]);
}

/** A series that uPlot neither ranges by nor marks with points. */
function hidden(): uPlot.Series {
  return { auto: false, stroke: "transparent", width: 0, points: { show: false } };
}

/** Wide enough for the longest label, so that a change of scale cuts none off. */
function axisWidth(labels: readonly string[]): number {
  const longest = Math.max(0, ...labels.map((label) => label.length));
  return Math.max(AXIS_WIDTH, Math.ceil(longest * LETTER) + AXIS_GAP + 2);
}

/** Ticks of values: close together on a low chart, further apart on a high one, which needs no more than ten. */
function mostValueTicks(height: number): number {
  return Math.min(height / 18, 3.5 + height / 60);
}

/** An axis needs two ends. */
function wideEnough(range: Range | undefined): [number, number] {
  const [from, to] = range ?? [0, 1];
  return to > from ? [from, to] : [from - 0.5, from + 0.5];
}

/** The area between the two edges of a band, where both can be drawn. */
const bandPath: uPlot.Series.PathBuilder = (plot, index) => {
  const [x, high, low] = (plot.data as unknown as [number[], Column, Column][])[index] ?? [[], [], []];
  const fill = new Path2D();
  const px = (at: number) => plot.valToPos(x[at] as number, "x", true);
  const py = (column: Column, at: number) => plot.valToPos(column[at] as number, "y", true);
  for (const [start, stop] of stretches(low, high)) {
    fill.moveTo(px(start), py(high, start));
    for (let at = start + 1; at < stop; at += 1) fill.lineTo(px(at), py(high, at));
    for (let at = stop - 1; at >= start; at -= 1) fill.lineTo(px(at), py(low, at));
    fill.closePath();
  }
  return { stroke: null, fill, clip: null, flags: 0 };
};
