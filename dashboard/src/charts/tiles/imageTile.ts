/** Values as an image on a canvas: grey, coloured, or signed about 0. */

import type { Rgb, Theme } from "@/charts/colors/viridis";
import { heatPixels, symmetricScale } from "@/charts/heatmap/heatScale";
import { summarise } from "@/lib/statistics";

const BROKEN: Record<Theme, Rgb> = { light: [204, 59, 40], dark: [242, 112, 92] };

/** The largest absolute value; 0 where none is finite. */
export function largestOf(values: ArrayLike<number>): number {
  const { minimum, maximum, finite } = summarise(values);
  return finite ? Math.max(Math.abs(minimum), Math.abs(maximum)) : 0;
}

/** Signed values on their own symmetric scale. */
export function signedImage(
  values: ArrayLike<number>,
  width: number,
  height: number,
  theme: Theme,
): ImageData {
  const scale = symmetricScale(largestOf(values), theme);
  return new ImageData(heatPixels(values, scale, BROKEN[theme]), width, height);
}

/** Values between `low` and `high` as grey, or as red, green and blue planes. */
export function plainImage(
  values: ArrayLike<number>,
  start: number,
  shape: { channels: number; width: number; height: number },
  low: number,
  high: number,
): ImageData {
  const { channels, width, height } = shape;
  const area = width * height;
  const pixels = new Uint8ClampedArray(area * 4);
  const factor = high > low ? 255 / (high - low) : 0;
  for (let index = 0; index < area; index += 1) {
    for (let channel = 0; channel < 3; channel += 1) {
      const plane = channels === 3 ? channel : 0;
      pixels[index * 4 + channel] = ((values[start + plane * area + index] as number) - low) * factor;
    }
    pixels[index * 4 + 3] = 255;
  }
  return new ImageData(pixels, width, height);
}
