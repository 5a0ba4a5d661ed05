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

  next(value: number): number {
    if (!Number.isFinite(value)) return Number.NaN;
    this.mean = this.weight * this.mean + (1 - this.weight) * value;
    this.counted = this.weight * this.counted + (1 - this.weight);
    return this.mean / this.counted;
  }
}

/** A whole column, smoothed. */
export function smooth(values: ArrayLike<number>, weight: number): Float64Array {
  const smoother = new Smoother(weight);
  const smoothed = new Float64Array(values.length);
  for (let index = 0; index < values.length; index += 1)
    smoothed[index] = smoother.next(values[index] as number);
  return smoothed;
}
