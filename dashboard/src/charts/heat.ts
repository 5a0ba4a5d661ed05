/** A matrix as pixels: signed ramp where values have both signs, magnitude ramp otherwise. */
import { signed } from "./signed";
import { summarise } from "./statistics";
import { css, type Rgb, type Theme, viridis } from "./viridis";

export interface HeatScale {
  low: number;
  high: number;
  colour: (value: number) => Rgb;
  /** The scale as a CSS gradient, for the legend. */
  gradient: string;
}

/** The scale for these values, its ends included so that no colour goes unlabelled. */
export function heatScale(values: ArrayLike<number>, theme: Theme): HeatScale {
  const { minimum, maximum, finite } = summarise(values);
  const bothSigns = finite > 0 && minimum < 0 && maximum > 0;
  const largest = Math.max(Math.abs(minimum), Math.abs(maximum));
  const [low, high] = !finite ? [0, 1] : bothSigns ? [-largest, largest] : [minimum, maximum];
  const unit = (value: number) => (high > low ? (value - low) / (high - low) : 0.5);
  const colour = (value: number): Rgb =>
    bothSigns ? signed(unit(value) * 2 - 1, theme) : viridis(unit(value));
  const stops = Array.from({ length: 9 }, (_, index) => css(colour(low + ((high - low) * index) / 8)));
  return { low, high, colour, gradient: `linear-gradient(to right, ${stops.join(", ")})` };
}

/** RGBA pixels of the matrix, one per cell; a cell that is not finite is the colour of what is wrong. */
export function heatPixels(
  values: ArrayLike<number>,
  scale: HeatScale,
  broken: Rgb,
): Uint8ClampedArray<ArrayBuffer> {
  const pixels = new Uint8ClampedArray(values.length * 4);
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index] as number;
    const [red, green, blue] = Number.isFinite(value) ? scale.colour(value) : broken;
    pixels[index * 4] = red;
    pixels[index * 4 + 1] = green;
    pixels[index * 4 + 2] = blue;
    pixels[index * 4 + 3] = 255;
  }
  return pixels;
}
