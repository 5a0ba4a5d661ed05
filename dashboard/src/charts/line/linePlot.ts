/** A line over steps drawn with uPlot: each point thin, the trend thick, a band, marks above. Loaded lazily. */
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { type PlotColours, plotColours } from "@/charts/colors/plotColors";
import { logLabel, logSplits, sameDecimals } from "@/charts/ticks";
import { pngOf } from "@/ui/export/png";
import { decimate, gather, visibleWindow } from "./decimate";
import { drawOverlay, drawUnderlay, type Mark, type Overlay } from "./plotMarks";
import type { Points, Trend } from "./trend";

/** Everything one picture needs. */
export interface PlotFrame {
  points: Points;
  trend: Trend;
  /** Half width of the band in standard deviations. */
  sigma: number;
  range: readonly [from: number, to: number];
  logScale: boolean;
  marks: readonly Mark[];
  /** Text beside the last point. */
  lastLabel: string;
  /** Index of the point under the cursor. */
  cursor: number | null;
}

export interface PlotHandlers {
  /** The pointer is over the point at this index, or gone. */
  onHover: (index: number | null) => void;
  onSelect: (from: number, to: number) => void;
  onWheel: (at: number, factor: number) => void;
  onReset: () => void;
  valueRange: (
    raw: readonly (number | null)[],
    low: readonly (number | null)[],
    high: readonly (number | null)[],
    logScale: boolean,
  ) => readonly [number, number];
}

const AXIS_WIDTH = 32;
const AXIS_HEIGHT = 22;
/** Between the labels and the lines. */
const AXIS_GAP = 8;
/** Labels of values stand at least so far apart. */
const LABEL_SPACE = 24;
/** Room above the lines for diamonds. */
const TOP = 26;
const FONT = "11px Inter, system-ui, sans-serif";

type Row = (number | null)[];

/** Wide enough for the longest label, so that a change of scale cuts none off. */
function axisWidth(values: readonly string[] | null): number {
  const longest = Math.max(0, ...(values ?? []).map((label) => label.length));
  return Math.max(AXIS_WIDTH, Math.ceil(longest * 6.4) + AXIS_GAP + 2);
}

/** Whether only marks or the cursor differ, so that the lines need not be gathered again. */
function sameLines(a: PlotFrame, b: PlotFrame): boolean {
  const last = b.points.step.length - 1;
  return (
    a.trend === b.trend &&
    a.sigma === b.sigma &&
    a.range[0] === b.range[0] &&
    a.range[1] === b.range[1] &&
    a.points.step.length === last + 1 &&
    a.points.step[last] === b.points.step[last] &&
    a.points.step[0] === b.points.step[0]
  );
}

export class LinePlot {
  private plot: uPlot | null = null;
  private frame: PlotFrame | null = null;
  private values: readonly [number, number] = [0, 1];
  private colours: PlotColours;

  constructor(
    private readonly container: HTMLElement,
    private readonly handlers: PlotHandlers,
  ) {
    this.colours = plotColours(container);
  }

  /** Draws a frame; costs one pass over the visible points, or none when only the cursor moved. */
  draw(frame: PlotFrame): void {
    const before = this.frame;
    this.frame = frame;
    if (this.plot === null || before?.logScale !== frame.logScale)
      this.build(this.columns(frame), frame.logScale);
    else if (before && sameLines(before, frame)) this.plot.redraw(false);
    else this.plot.setData(this.columns(frame));
  }

  /** Takes the colours of the theme anew. */
  recolour(): void {
    this.colours = plotColours(this.container);
    if (this.frame !== null) this.build(this.columns(this.frame), this.frame.logScale);
  }

  resize(width: number, height: number): void {
    if (width <= 0 || height <= 0 || !this.plot || !this.frame) return;
    this.plot.setSize({ width, height });
    this.plot.setData(this.columns(this.frame));
  }

  destroy(): void {
    this.plot?.destroy();
    this.plot = null;
  }

  /** The picture as it stands. */
  async png(): Promise<Blob | null> {
    return this.plot ? pngOf(this.plot.ctx.canvas) : null;
  }

  private columns({ points, trend, sigma, range, logScale }: PlotFrame): uPlot.AlignedData {
    const window = visibleWindow(points.step, points.step.length, range[0], range[1]);
    const width = Math.max(64, this.container.clientWidth - AXIS_WIDTH);
    const kept = decimate(points.step, points.value, window, width);
    const raw = gather(points.value, kept, logScale);
    const edge = (sign: 1 | -1): Row =>
      Array.from(kept, (index) => {
        const value = (trend.mean[index] as number) + sign * sigma * (trend.deviation[index] as number);
        return Number.isFinite(value) && !(logScale && value <= 0) ? value : null;
      });
    const low = edge(-1);
    const high = edge(1);
    this.values = this.handlers.valueRange(raw, low, high, logScale);
    const step = Array.from(kept, (index) => points.step[index] as number);
    return [step, low, high, raw, gather(trend.smoothed, kept, logScale)];
  }

  private build(data: uPlot.AlignedData, logScale: boolean): void {
    this.plot?.destroy();
    this.plot = new uPlot(this.options(logScale), data, this.container);
    this.listen(this.plot.over);
  }

  private options(logScale: boolean): uPlot.Options {
    const { colours } = this;
    const hidden = { stroke: "transparent", width: 0, points: { show: false } };
    return {
      width: Math.max(64, this.container.clientWidth),
      height: Math.max(64, this.container.clientHeight),
      padding: [TOP, 0, 0, 0],
      legend: { show: false },
      cursor: {
        show: true,
        x: false,
        y: false,
        points: { show: false },
        drag: { x: true, y: false, setScale: false },
      },
      scales: {
        x: { time: false, range: () => [...(this.frame?.range ?? [0, 1])] as [number, number] },
        y: { distr: logScale ? 3 : 1, range: () => [...this.values] as [number, number] },
      },
      axes: this.axes(logScale),
      series: [
        {},
        hidden,
        hidden,
        { stroke: colours.thin, width: 1, points: { show: false } },
        { stroke: colours.line, width: 2, points: { show: false } },
      ],
      bands: [{ series: [2, 1], fill: colours.band }],
      hooks: {
        drawAxes: [(plot) => this.withOverlay((overlay) => drawUnderlay(plot, colours, overlay))],
        draw: [(plot) => this.withOverlay((overlay) => drawOverlay(plot, colours, overlay))],
        setSelect: [(plot) => this.selected(plot)],
      },
    };
  }

  private axes(logScale: boolean): uPlot.Axis[] {
    const { colours } = this;
    const axis = { font: FONT, stroke: colours.t3, ticks: { show: false } };
    return [
      {
        ...axis,
        size: AXIS_HEIGHT,
        gap: 6,
        space: 80,
        grid: { show: false },
        values: (_, splits) => this.stepLabels(splits),
      },
      {
        ...axis,
        size: (_, values) => axisWidth(values),
        gap: AXIS_GAP,
        space: LABEL_SPACE,
        grid: { stroke: colours.grid, width: 1 },
        ...(logScale
          ? {
              splits: (plot, _, low, high) =>
                logSplits(low, high, plot.bbox.height / devicePixelRatio / LABEL_SPACE),
              filter: (_, splits) => splits,
              values: (_, splits) => splits.map(logLabel),
            }
          : { values: (_, splits) => sameDecimals(splits) }),
      },
    ];
  }

  /** Labels of the steps; one that would be cut off at the edge is left out. */
  private stepLabels(splits: number[]): string[] {
    const [from, to] = this.frame?.range ?? [0, 1];
    const perStep = (this.container.clientWidth - AXIS_WIDTH) / (to - from);
    return sameDecimals(splits).map((label, index) => {
      const room = (to - (splits[index] as number)) * perStep;
      return room < label.length * 3.2 ? "" : label;
    });
  }

  private withOverlay(draw: (overlay: Overlay) => void): void {
    if (this.frame === null) return;
    const { points, trend, marks, lastLabel, cursor } = this.frame;
    draw({ points, broken: trend.broken, marks, lastLabel, cursor });
  }

  private selected(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width < 4) return;
    const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.handlers.onSelect(from, to);
  }

  private listen(over: HTMLElement): void {
    over.addEventListener("pointermove", (event) => this.handlers.onHover(this.indexAt(event.offsetX)));
    over.addEventListener("pointerleave", () => this.handlers.onHover(null));
    over.addEventListener("dblclick", () => this.handlers.onReset());
    over.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const at = this.plot?.posToVal(event.offsetX, "x");
        if (at !== undefined) this.handlers.onWheel(at, 1.2 ** Math.sign(event.deltaY));
      },
      { passive: false },
    );
  }

  /** Index of the point nearest to a place on the chart. */
  private indexAt(offset: number): number | null {
    const points = this.frame?.points;
    if (!points?.step.length || !this.plot) return null;
    const wanted = this.plot.posToVal(offset, "x");
    const { start, stop } = visibleWindow(points.step, points.step.length, wanted, wanted);
    let best = start;
    for (let index = start; index < stop; index += 1) {
      if (
        Math.abs((points.step[index] as number) - wanted) < Math.abs((points.step[best] as number) - wanted)
      )
        best = index;
    }
    return best;
  }
}
