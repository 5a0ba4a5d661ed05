/** The ramp of signed values: symmetric about 0, red up, blue down, quiet in the middle. */
import type { Rgb, Theme } from "./viridis";

const STOPS: Record<Theme, readonly string[]> = {
  light: ["0B3C7D", "2166AC", "5B9BCB", "A9CDE4", "F4F4F3", "F3B79C", "DB6F55", "B2272F", "6E0A1E"],
  dark: ["A6CDFA", "5FA0EA", "2F6CB8", "1F3F66", "191C20", "66302A", "B04A3A", "E87A5E", "FFC2AB"],
};

function fromHex(hex: string): Rgb {
  const word = Number.parseInt(hex, 16);
  return [word >> 16, (word >> 8) & 255, word & 255];
}

/** Colour of `t` in −1…1; anything outside is clamped. */
export function signed(t: number, theme: Theme): Rgb {
  const stops = STOPS[theme];
  const position = ((Math.min(1, Math.max(-1, t || 0)) + 1) / 2) * (stops.length - 1);
  const below = Math.min(Math.floor(position), stops.length - 2);
  const share = position - below;
  const from = fromHex(stops[below] as string);
  const to = fromHex(stops[below + 1] as string);
  const mix = (channel: 0 | 1 | 2) => Math.round(from[channel] + share * (to[channel] - from[channel]));
  return [mix(0), mix(1), mix(2)];
}
