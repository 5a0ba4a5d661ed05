/** Draws the tiles of a batch: the sample, loss bar, label left and loss right below, rings. */
import { markColour, type Theme } from "@/charts/colors/viridis";
import { type Rectangle, type TileLayout, tileAt, tilesInView } from "@/charts/tiles/tileLayout";
import { formatTile } from "@/lib/format";
import { type Sample, type Samples, sampleAt } from "@/samples/samples";

export interface GridColours {
  text: string;
  t2: string;
  bad: string;
  badText: string;
  accent: string;
  warn: string;
  /** Behind pixels of values that are not finite. */
  nan: string;
  onNan: string;
  /** In place of a sample that is not loaded. */
  empty: string;
}

/** Draws one sample into its tile, which is clipped. */
export type DrawBody = (
  context: CanvasRenderingContext2D,
  sample: Sample,
  at: Rectangle,
  colours: GridColours,
  ratio: number,
) => void;

export interface DrawnTiles {
  samples: Samples;
  drawBody: DrawBody;
  /** What the losses are multiplied by before they are written. */
  factor: number;
  /** Indices into the batch in the order they are shown. */
  order: readonly number[];
  layout: TileLayout;
  /** How far the grid is scrolled. */
  scrollTop: number;
  theme: Theme;
  colours: GridColours;
  /** Ids to point out, for example the evidence of a breakpoint. */
  pointedOut: ReadonlySet<number>;
  /** Positions of the samples that stopped the run. */
  culprits: readonly number[];
}

/** Space the rings need around the outer tiles. */
export const MARGIN = 4;
const FAMILY = "Inter, system-ui, sans-serif";

export function gridColours(element: Element): GridColours {
  const style = getComputedStyle(element);
  const read = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    text: read("text"),
    t2: read("t2"),
    bad: read("bad-mark"),
    badText: read("bad"),
    accent: read("accent"),
    warn: read("warn-mark"),
    nan: read("nan"),
    onNan: read("on-nan"),
    empty: read("s2"),
  };
}

/** Draws the rows in view; the cursor is an element of its own and moves without a redraw. */
export function drawTiles(canvas: HTMLCanvasElement, drawn: DrawnTiles, ratio: number): void {
  const context = canvas.getContext("2d");
  if (!context) return;
  const { samples, order, layout, scrollTop } = drawn;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, canvas.width / ratio, canvas.height / ratio);
  context.translate(MARGIN, MARGIN - scrollTop);
  context.textBaseline = "alphabetic";
  const [first, stop] = tilesInView(layout, order.length, scrollTop, canvas.height / ratio);
  for (let index = first; index < stop; index += 1) {
    const sample = sampleAt(samples, order[index]);
    const at = tileAt(layout, index);
    if (sample) drawTile(context, drawn, sample, at, ratio);
    else drawPlaceholder(context, drawn.colours, at);
  }
}

function drawPlaceholder(context: CanvasRenderingContext2D, { empty }: GridColours, at: Rectangle): void {
  context.fillStyle = empty;
  context.beginPath();
  context.roundRect(at.x, at.y, at.width, at.height, 2);
  context.fill();
}

function drawTile(
  context: CanvasRenderingContext2D,
  { drawBody, theme, colours, factor, pointedOut, culprits }: DrawnTiles,
  sample: Sample,
  at: Rectangle,
  ratio: number,
): void {
  context.save();
  context.beginPath();
  context.roundRect(at.x, at.y, at.width, at.height, 2);
  context.clip();
  drawBody(context, sample, at, colours, ratio);
  if (sample.broken > 0) drawNanWord(context, colours, at);
  context.restore();
  if (sample.loss !== null) {
    context.fillStyle = Number.isNaN(sample.loss) ? colours.bad : markColour(sample.magnitude, theme);
    context.fillRect(at.x, at.y + at.height + 1, at.width, 3);
  }
  drawCaption(context, colours, sample, formatTile(sample.loss, factor), at);
  if (sample.isOutlier || culprits.includes(sample.batchIndex)) drawRing(context, at, colours.bad);
  else if (pointedOut.has(sample.id)) drawRing(context, at, colours.warn);
}

/** The word over the sample: a single broken pixel of a small tile could be missed. */
function drawNanWord(context: CanvasRenderingContext2D, { nan, onNan }: GridColours, at: Rectangle): void {
  context.font = `600 9px ${FAMILY}`;
  const width = context.measureText("NaN").width + 4;
  context.fillStyle = nan;
  context.fillRect(at.x, at.y, width, 11);
  context.fillStyle = onNan;
  context.textAlign = "left";
  context.fillText("NaN", at.x + 2, at.y + 9);
}

function drawCaption(
  context: CanvasRenderingContext2D,
  colours: GridColours,
  sample: Sample,
  loss: string,
  at: Rectangle,
): void {
  const baseline = at.y + at.height + 13;
  context.textAlign = "right";
  context.font = `${sample.isOutlier ? 600 : 400} 10px ${FAMILY}`;
  context.fillStyle = sample.isOutlier ? colours.badText : colours.t2;
  context.fillText(loss, at.x + at.width, baseline);
  if (sample.label === null) return;
  const room = at.width - (loss ? context.measureText(loss).width + 3 : 0);
  context.textAlign = "left";
  context.font = `600 10px ${FAMILY}`;
  context.fillStyle = sample.isOutlier ? colours.badText : colours.text;
  context.fillText(shortened(context, sample.label, room), at.x, baseline);
}

function shortened(context: CanvasRenderingContext2D, text: string, room: number): string {
  if (context.measureText(text).width <= room) return text;
  let end = text.length - 1;
  while (end > 0 && context.measureText(`${text.slice(0, end)}…`).width > room) end -= 1;
  return end > 0 ? `${text.slice(0, end)}…` : "";
}

function drawRing(context: CanvasRenderingContext2D, at: Rectangle, colour: string): void {
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.beginPath();
  context.roundRect(at.x - 1, at.y - 1, at.width + 2, at.height + 2, 3);
  context.stroke();
}
