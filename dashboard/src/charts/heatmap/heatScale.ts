/** A matrix as pixels: signed ramp where values have both signs, magnitude ramp otherwise, or a preset. */
import { signed } from "@/charts/colors/signed";
import { css, type Rgb, type Theme, viridis } from "@/charts/colors/viridis";
import { summarise } from "@/lib/statistics";

/** Ways to colour a matrix: −1…1 about 0, 0…1 about a half, or what the values themselves span. */
export type HeatPreset = "signed" | "similarity" | "range";

export interface HeatScale {
  low: number;
  high: number;
  colour: (value: number) => Rgb;
  /** The scale as a CSS gradient, for the legend. */
  gradient: string;
}

function scaleOf(low: number, high: number, colour: (value: number) => Rgb): HeatScale {
  const stops = Array.from({ length: 9 }, (_, index) => css(colour(low + ((high - low) * index) / 8)));
  return { low, high, colour, gradient: `linear-gradient(to right, ${stops.join(", ")})` };
}

/** The scale for these values, its ends included so that no colour goes unlabelled. */
export function heatScale(values: ArrayLike<number>, theme: Theme): HeatScale {
  const { minimum, maximum, finite } = summarise(values);
  const bothSigns = finite > 0 && minimum < 0 && maximum > 0;
  const largest = Math.max(Math.abs(minimum), Math.abs(maximum));
  const [low, high] = !finite ? [0, 1] : bothSigns ? [-largest, largest] : [minimum, maximum];
  const unit = (value: number) => (high > low ? (value - low) / (high - low) : 0.5);
  return scaleOf(low, high, (value) =>
    bothSigns ? signed(unit(value) * 2 - 1, theme) : viridis(unit(value)),
  );
}

/** Blue at 0, white at a half, red at 1. */
const SIMILARITY_STOPS: readonly Rgb[] = [
  [33, 102, 172],
  [255, 255, 255],
  [178, 39, 47],
];

/** Colour of a similarity in 0…1; anything outside is clamped. */
function similarity(t: number): Rgb {
  const position = Math.min(1, Math.max(0, t)) * 2;
  const below = Math.min(Math.floor(position), 1);
  const share = position - below;
  const from = SIMILARITY_STOPS[below] as Rgb;
  const to = SIMILARITY_STOPS[below + 1] as Rgb;
  const mix = (channel: 0 | 1 | 2) => Math.round(from[channel] + share * (to[channel] - from[channel]));
  return [mix(0), mix(1), mix(2)];
}

/** A scale by name; only `range` looks at the values. */
export function presetScale(preset: HeatPreset, values: ArrayLike<number>, theme: Theme): HeatScale {
  if (preset === "signed") return scaleOf(-1, 1, (value) => signed(value, theme));
  if (preset === "similarity") return scaleOf(0, 1, similarity);
  return heatScale(values, theme);
}

/** Symmetric about 0 with `largest` at both ends, as images of weights and of their changes are drawn. */
export function symmetricScale(largest: number, theme: Theme): HeatScale {
  const end = largest > 0 ? largest : 1;
  return scaleOf(-end, end, (value) => signed(value / end, theme));
}

/** How finely colours are looked up: more steps than an eye tells apart on any of the ramps. */
const STEPS = 1024;

/**
 * RGBA pixels of the matrix, one per cell; a cell that is not finite is the colour of what is wrong.
 *
 * Colours come from a table, so that four million cells take milliseconds.
 */
export function heatPixels(
  values: ArrayLike<number>,
  scale: HeatScale,
  broken: Rgb,
): Uint8ClampedArray<ArrayBuffer> {
  const pixels = new Uint8ClampedArray(values.length * 4);
  const words = new Uint32Array(pixels.buffer);
  const table = Uint32Array.from({ length: STEPS }, (_, index) =>
    word(scale.colour(scale.low + ((scale.high - scale.low) * index) / (STEPS - 1))),
  );
  const wrong = word(broken);
  const { low, high } = scale;
  const perUnit = high > low ? (STEPS - 1) / (high - low) : 0;
  const middle = high > low ? 0 : STEPS >> 1;
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index] as number;
    if (value - value !== 0) {
      words[index] = wrong;
      continue;
    }
    const at = (value - low) * perUnit + middle + 0.5;
    words[index] = table[at < 0 ? 0 : at >= STEPS ? STEPS - 1 : at | 0] as number;
  }
  return pixels;
}

/** The four bytes of a pixel as one number; every machine that runs a browser is little endian. */
function word([red, green, blue]: Rgb): number {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}
