/** The smoothed line of every chart: at each point the height of a line fitted to the points on both sides. */

type Fence = readonly [low: number, high: number];

/**
 * Weighted sums over the points on one side of a point.
 *
 * Distances are those along the column, so that a fit through a ramp is the ramp, also beside a gap.
 */
class SideSums {
  weight = 0;
  distance = 0;
  squared = 0;
  value = 0;
  product = 0;

  /** Moves `gap` places away from all points so far, which then count `share` of what they did, and adds one. */
  next(gap: number, share: number, value: number): void {
    const { weight, distance, product } = this;
    this.squared = share * (this.squared + gap * (2 * distance + gap * weight));
    this.product = share * (product + gap * this.value);
    this.distance = share * (distance + gap * weight);
    this.weight = share * weight + 1;
    this.value = share * this.value + value;
  }

  write(column: Float64Array, at: number): void {
    column[at] = this.weight;
    column[at + 1] = this.distance;
    column[at + 2] = this.squared;
    column[at + 3] = this.value;
    column[at + 4] = this.product;
  }

  read(column: Float64Array, at: number): void {
    this.weight = column[at] as number;
    this.distance = column[at + 1] as number;
    this.squared = column[at + 2] as number;
    this.value = column[at + 3] as number;
    this.product = column[at + 4] as number;
  }
}

/**
 * A whole column, smoothed without lag in two passes; a point counts `weight` (0…1) times as much as the next nearer one.
 *
 * A mean of the points before would lag: of a falling loss it lies above. A mean of both sides lags at the ends, which a
 * fitted line does not. A value that is not finite stays a gap (NaN). Values beyond `fence` are left out, and the line
 * continues straight through them.
 */
export function smooth(
  values: ArrayLike<number>,
  weight: number,
  fence: Fence | null = null,
): Float64Array<ArrayBuffer> {
  const counted = countedPoints(values, fence);
  return betweenCounted(values, counted, fitted(values, counted, weight));
}

/** Indices of the points that count. */
function countedPoints(values: ArrayLike<number>, fence: Fence | null): Int32Array {
  const counted = new Int32Array(values.length);
  const [low, high] = fence ?? [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  let count = 0;
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index] as number;
    if (!Number.isFinite(value) || value < low || value > high) continue;
    counted[count] = index;
    count += 1;
  }
  return counted.subarray(0, count);
}

/** Numbers kept of the points after each point. */
const KEPT = 5;

/** The smoothed value of each counted point; none is beyond what was measured. */
function fitted(values: ArrayLike<number>, counted: Int32Array, weight: number): Float64Array {
  const count = counted.length;
  const kept = new Float64Array(KEPT * count);
  const after = new SideSums();
  let [lowest, highest, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0];
  for (let at = count - 1; at >= 0; at -= 1) {
    const index = counted[at] as number;
    const value = values[index] as number;
    after.next(last - index, weight, value);
    after.write(kept, KEPT * at);
    last = index;
    if (value < lowest) lowest = value;
    if (value > highest) highest = value;
  }
  const before = new SideSums();
  const line = new Float64Array(count);
  for (let at = 0; at < count; at += 1) {
    const index = counted[at] as number;
    const value = values[index] as number;
    before.next(index - last, weight, value);
    after.read(kept, KEPT * at);
    last = index;
    // Both sides hold the point itself, at distance 0.
    const total = before.weight + after.weight - 1;
    const mean = (before.value + after.value - value) / total;
    const offset = (after.distance - before.distance) / total;
    const squared = before.squared + after.squared;
    const spread = squared - total * offset * offset;
    const rise = after.product - before.product - total * offset * mean;
    // A single point has no slope.
    const height = spread > 1e-9 * squared ? mean - (rise / spread) * offset : mean;
    line[at] = height < lowest ? lowest : height > highest ? highest : height;
  }
  return line;
}

/** The line at all points: straight between those that count, level beyond the first and the last of them. */
function betweenCounted(
  values: ArrayLike<number>,
  counted: Int32Array,
  line: Float64Array,
): Float64Array<ArrayBuffer> {
  const smoothed = new Float64Array(values.length).fill(Number.NaN);
  for (let at = 0; at < counted.length; at += 1) smoothed[counted[at] as number] = line[at] as number;
  if (counted.length === 0) return smoothed;
  let next = 0;
  for (let index = 0; index < values.length; index += 1) {
    if (index === counted[next]) {
      next += 1;
      continue;
    }
    if (!Number.isFinite(values[index] as number)) continue;
    const [left, right] = [Math.max(0, next - 1), Math.min(counted.length - 1, next)];
    const [from, to] = [counted[left] as number, counted[right] as number];
    const share = left === right ? 0 : (index - from) / (to - from);
    smoothed[index] = (1 - share) * (line[left] as number) + share * (line[right] as number);
  }
  return smoothed;
}

/** A mean over more than this share of all points would hide how they change. */
const WIDEST_WINDOW = 0.05;

/** The weight for a column of so many points: as asked for, but of a short column only its nearest points count. */
export function fittingWeight(weight: number, points: number): number {
  return Math.max(0, Math.min(weight, 1 - 1 / Math.max(1, points * WIDEST_WINDOW)));
}
