/** How a row of a tensor is drawn: as an image where it has two dimensions or a hint says so, as bars otherwise. */

export interface RowPicture {
  height: number;
  width: number;
}

/** Height and width of the image of a row; null when it is none. */
export function pictureOf(rowShape: readonly number[], hinted: readonly number[] | null): RowPicture | null {
  const length = rowShape.reduce((product, side) => product * side, 1);
  const [height, width] = hinted ?? [];
  if (height !== undefined && width !== undefined && height * width === length) return { height, width };
  // Channels of a convolution stand below each other.
  if (rowShape.length >= 2) {
    const across = rowShape[rowShape.length - 1] as number;
    return across > 1 ? { height: length / across, width: across } : null;
  }
  return null;
}

/** The square that a row would fill; offered if no hint says how to draw the row. */
export function squareOf(length: number): RowPicture | null {
  const side = Math.sqrt(length);
  return Number.isInteger(side) && side >= 4 ? { height: side, width: side } : null;
}

/** Whole pixels per value where they fit. */
export function pixelsPer({ height, width }: RowPicture, room: number): number {
  const most = room / Math.max(height, width);
  return most >= 1 ? Math.floor(most) : most;
}

/** Lowest and highest of each bar when there are more values than pixels. */
export function barsOf(values: ArrayLike<number>, most: number): { low: number; high: number }[] {
  const count = Math.min(values.length, Math.max(1, Math.floor(most)));
  return Array.from({ length: count }, (_, bar) => {
    const start = Math.floor((bar * values.length) / count);
    const stop = Math.floor(((bar + 1) * values.length) / count);
    let [low, high] = [0, 0];
    for (let index = start; index < stop; index += 1) {
      const value = values[index] as number;
      if (value < low) low = value;
      if (value > high) high = value;
    }
    return { low, high };
  });
}
