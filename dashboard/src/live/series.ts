/** Scalars of a run as growing columns: exact up to a million points per name, appended from the stream. */
import { fromWire, type ScalarsMessage } from "@/api/types";

export const MAX_POINTS = 1_000_000;
const FIRST_CAPACITY = 1024;

/** A part of a series that the run left behind when it went back. */
export interface AbandonedPart {
  step: Float64Array;
  value: Float64Array;
}

/** So many are kept of each scalar, the newest. */
export const MOST_ABANDONED = 8;

/** A part that directly precedes the last one belongs to the same way that was left: the run went back twice. */
export function withPart(parts: readonly AbandonedPart[], part: AbandonedPart): AbandonedPart[] {
  if (part.step.length === 0) return [...parts];
  const last = parts.at(-1);
  const isSame = last !== undefined && (part.step.at(-1) as number) < (last.step[0] as number);
  if (!isSame) return [...parts, part].slice(-MOST_ABANDONED);
  const both = (a: Float64Array, b: Float64Array) => Float64Array.from([...a, ...b]);
  return [...parts.slice(0, -1), { step: both(part.step, last.step), value: both(part.value, last.value) }];
}

/** One scalar over the steps. Arrays are longer than `length`; look at `view()`. */
export class Series {
  length = 0;
  /** False once old points were thinned to minima and maxima. */
  exact = true;
  /** What the run did before it went back, oldest first. */
  abandoned: readonly AbandonedPart[] = [];
  private steps = new Float64Array(FIRST_CAPACITY);
  private numbers = new Float64Array(FIRST_CAPACITY);

  /** Steps and values so far, without copying; valid until the next append. */
  view(): { step: Float64Array; value: Float64Array } {
    return { step: this.steps.subarray(0, this.length), value: this.numbers.subarray(0, this.length) };
  }

  get lastStep(): number {
    return this.length === 0 ? -1 : (this.steps[this.length - 1] as number);
  }

  append(step: number, value: number, mostPoints = MAX_POINTS): void {
    if (this.length === this.steps.length) this.grow();
    this.steps[this.length] = step;
    this.numbers[this.length] = value;
    this.length += 1;
    if (this.length > mostPoints) this.thin();
  }

  /** Index of the first point whose step is not below `step`. */
  indexOf(step: number): number {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.steps[middle] as number) < step) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Sets every point from `step` on aside; the run went back and writes them again. */
  cut(step: number): void {
    const from = this.indexOf(step);
    const range = [from, this.length] as const;
    const part = { step: this.steps.slice(...range), value: this.numbers.slice(...range) };
    this.abandoned = withPart(this.abandoned, part);
    this.length = from;
  }

  /** Puts the server's points in front of those that the stream brought since. */
  fill(step: Float64Array, low: Float64Array, high: Float64Array, exact: boolean): void {
    const lastFilled = step.length === 0 ? -1 : (step[step.length - 1] as number);
    const tail = this.view();
    const from = this.indexOf(lastFilled + 1);
    const tailStep = tail.step.slice(from);
    const tailValue = tail.value.slice(from);
    this.length = 0;
    this.exact = exact;
    this.steps = new Float64Array(Math.max(FIRST_CAPACITY, step.length * (exact ? 1 : 2) + tailStep.length));
    this.numbers = new Float64Array(this.steps.length);
    for (let i = 0; i < step.length; i += 1) {
      this.append(step[i] as number, low[i] as number, Number.POSITIVE_INFINITY);
      if (!exact && low[i] !== high[i])
        this.append(step[i] as number, high[i] as number, Number.POSITIVE_INFINITY);
    }
    for (let i = 0; i < tailStep.length; i += 1) this.append(tailStep[i] as number, tailValue[i] as number);
  }

  private grow(): void {
    const steps = new Float64Array(this.steps.length * 2);
    const numbers = new Float64Array(this.steps.length * 2);
    steps.set(this.steps);
    numbers.set(this.numbers);
    this.steps = steps;
    this.numbers = numbers;
  }

  /** Halves the older half: of every four points the lowest and the highest stay, in their order. */
  private thin(): void {
    const half = (this.length >> 3) << 2;
    let write = 0;
    for (let read = 0; read < half; read += 4) {
      const [first, second] = extremes(this.numbers, read, read + 4);
      for (const index of [first, second]) {
        this.steps[write] = this.steps[index] as number;
        this.numbers[write] = this.numbers[index] as number;
        write += 1;
      }
    }
    this.steps.copyWithin(write, half, this.length);
    this.numbers.copyWithin(write, half, this.length);
    this.length -= half - write;
    this.exact = false;
  }
}

/** Indices of the lowest and highest value in a range, in order; a NaN counts as an extreme so that it is kept. */
function extremes(values: Float64Array, start: number, stop: number): [number, number] {
  let low = start;
  let high = start + 1;
  for (let i = start; i < stop; i += 1) {
    const value = values[i] as number;
    if (Number.isNaN(value) || value < (values[low] as number)) low = i;
    else if (value > (values[high] as number) || i === start) high = i;
  }
  if (low === high) high = low === start ? start + 1 : start;
  return low < high ? [low, high] : [high, low];
}

/** A series as the server sends it: exact, or the minimum and maximum of each bucket of steps. */
export interface Points {
  step: Float64Array;
  low: Float64Array;
  high: Float64Array;
  exact: boolean;
  timeline: number;
}

/** All series of one run, kept free of gaps and repeats by the sequence number of the facts. */
export class SeriesStore {
  /** Facts up to here came by the stream. */
  seq = 0;
  timeline = 0;
  private readonly byName = new Map<string, Series>();

  /** Those with values: a chart that asked for `loss` before the first step does not make it a metric of the run. */
  get names(): string[] {
    const known = [...this.byName].filter(([, one]) => one.length > 0 || one.abandoned.length > 0);
    return known.map(([name]) => name).sort();
  }

  get(name: string): Series | undefined {
    return this.byName.get(name);
  }

  ensure(name: string): Series {
    let series = this.byName.get(name);
    if (series === undefined) {
      series = new Series();
      this.byName.set(name, series);
    }
    return series;
  }

  clear(): void {
    this.byName.clear();
    this.seq = 0;
    this.timeline = 0;
  }

  /** Takes a frame of the stream; answers whether anything was new. */
  append(message: ScalarsMessage): boolean {
    if (message.last_seq <= this.seq || message.step.length === 0) return false;
    this.seq = message.last_seq;
    if (message.timeline > this.timeline) this.changeTimeline(message.timeline, message.step[0] as number);
    for (const [name, column] of Object.entries(message.columns)) {
      const series = this.ensure(name);
      for (let i = 0; i < message.step.length; i += 1) {
        const value = fromWire(column[i]);
        const step = message.step[i] as number;
        // A fill may have brought the first rows already; one step has one record per timeline.
        if (value !== null && step > series.lastStep) series.append(step, value);
      }
    }
    return true;
  }

  /** Takes a whole series from the server; rows that the stream brought since are kept after it. */
  fill(name: string, points: Points): void {
    if (points.timeline > this.timeline) {
      const last = points.step[points.step.length - 1];
      this.changeTimeline(points.timeline, last === undefined ? 0 : last + 1);
    }
    this.ensure(name).fill(points.step, points.low, points.high, points.exact);
  }

  /** The run went back: points after `step` of another timeline are removed. Returns whether anything changed. */
  wentBack(timeline: number, step: number): boolean {
    if (timeline <= this.timeline) return false;
    this.changeTimeline(timeline, step + 1);
    return true;
  }

  /** A higher timeline starts over from its first step; what it has not reached is no longer true. */
  private changeTimeline(timeline: number, firstStep: number): void {
    this.timeline = timeline;
    for (const series of this.byName.values()) series.cut(firstStep);
  }
}
