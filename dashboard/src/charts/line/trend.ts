/** The smoothed line and the band of a growing series, kept up to date at about the cost of the new points. */
import type { Range } from "./lines";
import { fenceOf, isWithin } from "./robust";
import { smooth } from "./smooth";

const FIRST_CAPACITY = 4096;
/** A band around fewer points would say nothing; a z-score breakpoint waits for as many. */
export const FEWEST = 8;
/** Points further away than so many widths of the smoothing count less than a hundred thousandth. */
const REACH = 12;
/** The usual values are looked for again when there are more points by this share. */
const GROWTH = 1 / 16;

export interface TrendOptions {
  /** A point counts so many times as much in the smoothed line as the next nearer one: 0 to 1. */
  smoothing: number;
  /** Whether unusual values are left out of the smoothed line. */
  robust: boolean;
  /** Points in the window behind the band. */
  window: number;
  /** Points the window must hold before there is a band. */
  fewest: number;
}

export const DEFAULT_TREND: TrendOptions = {
  smoothing: 0.95,
  robust: true,
  window: 200,
  fewest: FEWEST,
};

export interface Points {
  step: Float64Array;
  value: Float64Array;
}

/**
 * Columns beside a series: index i of each belongs to point i.
 *
 * `mean` and `deviation` are those of the window *before* the point, as a z-score breakpoint sees them.
 */
export class Trend {
  smoothed = new Float64Array(FIRST_CAPACITY);
  mean = new Float64Array(FIRST_CAPACITY);
  deviation = new Float64Array(FIRST_CAPACITY);
  length = 0;
  private fence: Range | null = null;
  /** How many points there were when the fence was set. */
  private fenced = 0;
  private rolling: RollingWindow;
  private firstStep = Number.NaN;
  private lastStep = Number.NaN;

  constructor(readonly options: TrendOptions = DEFAULT_TREND) {
    this.rolling = new RollingWindow(options.window);
  }

  /** Catches up with the series; starts over when what was seen has changed (cut, filled or thinned). */
  follow({ step, value }: Points): void {
    if (!this.continues(step)) this.reset();
    this.reserve(step.length);
    const known = this.length;
    for (let index = known; index < step.length; index += 1) this.push(value[index] as number);
    this.smoothFrom(known, value);
    if (step.length) {
      this.firstStep = step[0] as number;
      this.lastStep = step[step.length - 1] as number;
    }
  }

  private continues(step: Float64Array): boolean {
    if (!this.length) return true;
    return step[0] === this.firstStep && step[this.length - 1] === this.lastStep;
  }

  private reset(): void {
    this.length = 0;
    this.fenced = 0;
    this.rolling = new RollingWindow(this.options.window);
  }

  /** New points change the line near them only, unless they show which values are unusual. */
  private smoothFrom(known: number, value: Float64Array): void {
    if (known === value.length) return;
    const { smoothing, robust } = this.options;
    const isRenewed = value.length > this.fenced * (1 + GROWTH);
    if (isRenewed) {
      this.fence = robust ? fenceOf(value, false) : null;
      this.fenced = value.length;
    }
    const reach = Math.ceil(REACH / (1 - smoothing));
    const first = isRenewed ? 0 : this.countBack(value, known, reach);
    const start = this.countBack(value, first, reach);
    const line = smooth(value.subarray(start), smoothing, this.fence);
    this.smoothed.set(line.subarray(first - start), first);
  }

  /** The index before which so many points that count lie up to another index. */
  private countBack(value: Float64Array, from: number, count: number): number {
    let index = from;
    for (let left = count; index > 0 && left > 0; ) {
      index -= 1;
      const one = value[index] as number;
      if (Number.isFinite(one) && isWithin(one, this.fence)) left -= 1;
    }
    return index;
  }

  private push(value: number): void {
    const index = this.length;
    const known = this.rolling.count >= this.options.fewest;
    this.mean[index] = known ? this.rolling.mean : Number.NaN;
    this.deviation[index] = known ? this.rolling.deviation : Number.NaN;
    if (Number.isFinite(value)) this.rolling.push(value);
    this.length = index + 1;
  }

  private reserve(wanted: number): void {
    if (wanted <= this.smoothed.length) return;
    const capacity = Math.max(wanted, this.smoothed.length * 2);
    const grow = (old: Float64Array) => {
      const grown = new Float64Array(capacity);
      grown.set(old.subarray(0, this.length));
      return grown;
    };
    this.smoothed = grow(this.smoothed);
    this.mean = grow(this.mean);
    this.deviation = grow(this.deviation);
  }
}

/**
 * Mean and deviation of the last values: a ring with running sums.
 *
 * The sums are taken about the first value and rebuilt once per turn of the ring, so rounding does not pile up.
 */
class RollingWindow {
  private readonly ring: Float64Array;
  private next = 0;
  private sum = 0;
  private squares = 0;
  private origin = 0;
  count = 0;

  constructor(readonly size: number) {
    this.ring = new Float64Array(size);
  }

  get mean(): number {
    return this.count ? this.origin + this.sum / this.count : Number.NaN;
  }

  /** Standard deviation of the values in the window (divided by their number). */
  get deviation(): number {
    if (!this.count) return Number.NaN;
    const shift = this.sum / this.count;
    return Math.sqrt(Math.max(0, this.squares / this.count - shift * shift));
  }

  push(value: number): void {
    if (!this.count) this.origin = value;
    if (this.count === this.size) {
      const oldest = (this.ring[this.next] as number) - this.origin;
      this.sum -= oldest;
      this.squares -= oldest * oldest;
    } else {
      this.count += 1;
    }
    this.ring[this.next] = value;
    this.sum += value - this.origin;
    this.squares += (value - this.origin) * (value - this.origin);
    this.next = (this.next + 1) % this.size;
    if (this.next === 0) this.rebuild();
  }

  private rebuild(): void {
    this.origin = this.mean;
    this.sum = 0;
    this.squares = 0;
    for (let index = 0; index < this.count; index += 1) {
      const shifted = (this.ring[index] as number) - this.origin;
      this.sum += shifted;
      this.squares += shifted * shifted;
    }
  }
}
