/** From the points of a chart's scalars to what is drawn: smoothed lines, usual range, values at the cursor. */
import { faded } from "@/charts/colors/faded";
import { seriesColour, seriesTextColour } from "@/charts/colors/seriesColors";
import { type Line, measured, pointAt, type Range } from "@/charts/line/lines";
import { fenceOf, isWithin, type OutOfRange } from "@/charts/line/robust";
import { fittingWeight, smooth } from "@/charts/line/smooth";
import { formatCount, formatRate, formatValue, plural } from "@/lib/format";
import type { AbandonedPart } from "@/live/series";
import type { ChartSpec } from "./chartPairs";
import type { ChartPoints } from "./useChartData";

/** Colours of training and validation, the same in every chart. */
const TRAIN_SLOT = 0;
const VALIDATION_SLOT = 1;
/** Means over more than half of the values would hide what a log of few values says. */
const DOTTED_BELOW = 200;

/** Training and validation of one metric; with `robust`, unusual values are left out of the smoothing. */
export function chartLines(
  { train, validation }: ChartSpec,
  points: (name: string) => ChartPoints | null,
  weight: number,
  robust: boolean,
): Line[] {
  const parts = [
    { name: train, slot: TRAIN_SLOT },
    { name: validation, slot: VALIDATION_SLOT },
  ];
  return parts.flatMap(({ name, slot }): Line[] => {
    const read = name === null ? null : points(name);
    if (name === null || read === null || read.x.length === 0) return [];
    const used = fittingWeight(weight, read.x.length);
    const fence = robust ? fenceOf(read.y, false) : null;
    return [
      {
        id: name,
        label: name,
        x: read.x,
        y: used > 0 ? smooth(read.y, used, fence) : read.y,
        raw: used > 0 ? read.y : undefined,
        colour: seriesColour(slot),
        textColour: seriesTextColour(slot),
        unnamed: true,
        dots: slot === VALIDATION_SLOT && read.x.length < DOTTED_BELOW,
      },
    ];
  });
}

/** Parts of a series that the run left when it went back: pale, in the colour of the series. */
export function abandonedLines(id: string, parts: readonly AbandonedPart[], slot: number): Line[] {
  return parts.map(
    ({ step, value }, index): Line => ({
      id: `${id}, left ${index}`,
      label: id,
      x: step,
      y: value,
      colour: faded(seriesColour(slot), 35),
      abandoned: true,
      unnamed: true,
    }),
  );
}

/** For those who cannot see the pale lines: " Pale: 6 points of earlier timelines." */
export function leftText(left: readonly Line[]): string {
  const count = left.reduce((sum, { x }) => sum + x.length, 0);
  return count === 0 ? "" : ` Pale: ${plural(count, "point")} of earlier timelines.`;
}

/** The same of both scalars of a chart. */
export function abandonedOf(
  { train, validation }: ChartSpec,
  points: (name: string) => ChartPoints | null,
): Line[] {
  const of = (name: string | null, slot: number) =>
    name === null ? [] : abandonedLines(name, points(name)?.abandoned ?? [], slot);
  return [...of(train, TRAIN_SLOT), ...of(validation, VALIDATION_SLOT)];
}

/** What a line had measured at x, or at its last point. */
export function valueAt(line: Line, x: number | null): number | null {
  const index = x === null ? line.x.length - 1 : pointAt(line, x);
  return index === null || index < 0 ? null : (measured(line)[index] as number);
}

const isRate = (name: string) => /^(lr|learning_rate)(?![a-z])/.test(name);

/** A value in the header of a chart; rates and small values as in the top bar: 1.0e−3. */
export function shortValue(value: number | null, name = ""): string {
  const isSmall = value !== null && Math.abs(value) < 0.01;
  return isSmall || isRate(name) ? formatRate(value) : formatValue(value, 3);
}

/** "3 above, max 9.41"; bucketed curves hold at least as many. */
export function outsideText({ above, below, highest, lowest }: OutOfRange, exact: boolean): string {
  const count = (many: number) => `${formatCount(many)}${exact ? "" : "+"}`;
  if (above > 0 && below > 0) return `${count(above)} above, ${count(below)} below`;
  if (above > 0) return `${count(above)} above, max ${shortValue(highest)}`;
  return below > 0 ? `${count(below)} below, min ${shortValue(lowest)}` : "";
}

/** All of a range; what begins near 0 is drawn from 0 on. */
export function fromZero([from, to]: Range): Range {
  return [from > 0 && from < to * 0.1 ? 0 : from, to];
}

/** The smallest range that holds both. */
export function joined(a: Range | null, b: Range): Range {
  return a === null || (isWithin(b[0], a) && isWithin(b[1], a))
    ? (a ?? b)
    : [Math.min(a[0], b[0]), Math.max(a[1], b[1])];
}
