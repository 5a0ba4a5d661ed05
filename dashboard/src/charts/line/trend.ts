/** The smoothed line and the band of a growing series, kept up to date at the cost of the new points only. */

const FIRST_CAPACITY = 4096;
/** A band around fewer points would say nothing; a z-score breakpoint waits for as many. */
export const FEWEST = 8;

export interface TrendOptions {
  /** Weight of the old value in the smoothed line, per point. */
  smoothing: number;
  /** Points in the window behind the band. */
  window: number;
  /** Points the window must hold before there is a band. */
  fewest: number;
}

export const DEFAULT_TREND: TrendOptions = { smoothing: 0.95, window: 200, fewest: FEWEST };

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
  /** Indices of the points that are not finite, in order. */
  readonly broken: number[] = [];
  private average = 0;
  private weight = 0;
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
    for (let index = this.length; index < step.length; index += 1) this.push(value[index] as number);
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
    this.broken.length = 0;
    this.average = 0;
    this.weight = 0;
    this.rolling = new RollingWindow(this.options.window);
  }

  private push(value: number): void {
    const index = this.length;
    const known = this.rolling.count >= this.options.fewest;
    this.mean[index] = known ? this.rolling.mean : Number.NaN;
    this.deviation[index] = known ? this.rolling.deviation : Number.NaN;
    this.smoothed[index] = this.smooth(value);
    if (Number.isFinite(value)) this.rolling.push(value);
    else this.broken.push(index);
    this.length = index + 1;
  }

  /** Exponential mean with bias correction; a point that is not finite leaves a gap and no trace. */
  private smooth(value: number): number {
    if (!Number.isFinite(value)) return Number.NaN;
    const { smoothing } = this.options;
    this.average = smoothing * this.average + (1 - smoothing) * value;
    this.weight = smoothing * this.weight + (1 - smoothing);
    return this.average / this.weight;
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
