/** Mean and standard deviation of the last n values, one multiplication per value. */

/**
 * A ring of values with running sums.
 *
 * The sums are taken about the first value and rebuilt once per turn of the ring, so rounding does not pile up.
 */
export class RollingWindow {
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
