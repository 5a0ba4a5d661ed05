/** The exponential mean with bias correction: the smoothed line of every chart. */

/**
 * One value after the other; `weight` (0…1) is what the old mean counts at each point.
 *
 * A value that is not finite stays a gap (NaN) and leaves no trace in the mean.
 */
export class Smoother {
  private mean = 0;
  private counted = 0;

  constructor(readonly weight: number) {}

  /** The mean after a value; one that does not count leaves the mean as it is. */
  next(value: number, counts = true): number {
    if (!Number.isFinite(value)) return Number.NaN;
    if (!counts) return this.counted > 0 ? this.mean / this.counted : Number.NaN;
    this.mean = this.weight * this.mean + (1 - this.weight) * value;
    this.counted = this.weight * this.counted + (1 - this.weight);
    return this.mean / this.counted;
  }
}

/** A whole column, smoothed; values beyond `fence` are left out, and the mean goes on through them. */
export function smooth(
  values: ArrayLike<number>,
  weight: number,
  fence: readonly [low: number, high: number] | null = null,
): Float64Array {
  const smoother = new Smoother(weight);
  const isCounted = (value: number) => fence === null || (value >= fence[0] && value <= fence[1]);
  const smoothed = new Float64Array(values.length);
  for (let index = 0; index < values.length; index += 1)
    smoothed[index] = smoother.next(values[index] as number, isCounted(values[index] as number));
  return smoothed;
}

/** A mean over more than this share of all points would lag behind what it shows. */
const WIDEST_WINDOW = 0.05;

/** The weight for a column of so many points: as asked for, but of a short column only its nearest points count. */
export function fittingWeight(weight: number, points: number): number {
  return Math.max(0, Math.min(weight, 1 - 1 / Math.max(1, points * WIDEST_WINDOW)));
}
