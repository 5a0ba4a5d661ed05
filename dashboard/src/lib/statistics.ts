/** Small statistics over the finite values of a column. */

export interface Summary {
  count: number;
  finite: number;
  mean: number;
  deviation: number;
  minimum: number;
  maximum: number;
}

/** Mean, deviation and range of the finite values; NaN where there is none. */
export function summarise(values: ArrayLike<number>): Summary {
  let finite = 0;
  let mean = 0;
  let spread = 0;
  let minimum = Number.POSITIVE_INFINITY;
  let maximum = Number.NEGATIVE_INFINITY;
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index] as number;
    if (!Number.isFinite(value)) continue;
    finite += 1;
    const before = value - mean;
    mean += before / finite;
    spread += before * (value - mean);
    minimum = Math.min(minimum, value);
    maximum = Math.max(maximum, value);
  }
  if (!finite) {
    const none = Number.NaN;
    return { count: values.length, finite, mean: none, deviation: none, minimum: none, maximum: none };
  }
  const deviation = Math.sqrt(spread / finite);
  return { count: values.length, finite, mean, deviation, minimum, maximum };
}

/** How many standard deviations each value lies above the mean; NaN stays NaN, a constant gives 0. */
export function zScores(values: ArrayLike<number>): Float64Array {
  const { mean, deviation } = summarise(values);
  return Float64Array.from(values, (value) =>
    Number.isFinite(value) && !(deviation > 0) ? 0 : (value - mean) / deviation,
  );
}

/** Whether a sample's loss is an outlier of its batch: z > 3, or not a finite number. */
export function isOutlier(loss: number, z: number): boolean {
  return !Number.isFinite(loss) || z > 3;
}
