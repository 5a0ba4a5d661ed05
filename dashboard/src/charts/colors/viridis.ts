/** The magnitude ramp (viridis) and the parts of it that stay visible on each theme. */

export type Rgb = readonly [red: number, green: number, blue: number];
export type Theme = "light" | "dark";

const STOPS: readonly Rgb[] = [
  [68, 1, 84],
  [71, 23, 105],
  [71, 44, 122],
  [65, 66, 135],
  [57, 86, 140],
  [48, 104, 142],
  [40, 122, 142],
  [33, 140, 141],
  [31, 158, 137],
  [42, 176, 127],
  [79, 195, 106],
  [122, 209, 81],
  [173, 220, 48],
  [216, 226, 25],
  [253, 231, 37],
];

/** Marks keep clear of the end of the ramp that would sink into the background. */
const MARK_RANGE: Record<Theme, readonly [number, number]> = { light: [0, 0.94], dark: [0.16, 1] };

function clampUnit(value: number): number {
  return value > 1 ? 1 : value > 0 ? value : 0;
}

/** Colour of `t` in 0…1; anything outside, NaN too, is clamped. */
export function viridis(t: number): Rgb {
  const position = clampUnit(t) * (STOPS.length - 1);
  const below = Math.min(Math.floor(position), STOPS.length - 2);
  const share = position - below;
  const from = STOPS[below] as Rgb;
  const to = STOPS[below + 1] as Rgb;
  const mix = (channel: 0 | 1 | 2) => Math.round(from[channel] + share * (to[channel] - from[channel]));
  return [mix(0), mix(1), mix(2)];
}

export function css([red, green, blue]: Rgb): string {
  return `rgb(${red} ${green} ${blue})`;
}

/** Colour of a mark (bar, point, line) on panels of `theme`. */
export function markColour(t: number, theme: Theme): string {
  const [start, end] = MARK_RANGE[theme];
  return css(viridis(start + clampUnit(t) * (end - start)));
}

/** The ramp of marks as a CSS gradient, for legends. */
export function markGradient(theme: Theme, stops = 8): string {
  const colours = Array.from({ length: stops }, (_, index) => markColour(index / (stops - 1), theme));
  return `linear-gradient(to right, ${colours.join(", ")})`;
}

/** Place of `value` between `low` and `high` on a log scale, or linear when `low` is not positive. */
export function magnitude(value: number, low: number, high: number): number {
  if (!(high > low)) return 0.5;
  if (low > 0) return clampUnit(Math.log(value / low) / Math.log(high / low));
  return clampUnit((value - low) / (high - low));
}
