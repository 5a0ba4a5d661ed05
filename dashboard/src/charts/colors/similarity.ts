/** The ramp of similarities: blue at 0, white at a half, red at 1. */
import type { Rgb } from "./viridis";

const STOPS: readonly Rgb[] = [
  [33, 102, 172],
  [255, 255, 255],
  [178, 39, 47],
];

/** Colour of `t` in 0…1; anything outside is clamped. */
export function similarity(t: number): Rgb {
  const position = Math.min(1, Math.max(0, t)) * 2;
  const below = Math.min(Math.floor(position), 1);
  const share = position - below;
  const from = STOPS[below] as Rgb;
  const to = STOPS[below + 1] as Rgb;
  const mix = (channel: 0 | 1 | 2) => Math.round(from[channel] + share * (to[channel] - from[channel]));
  return [mix(0), mix(1), mix(2)];
}
