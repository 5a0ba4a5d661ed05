/** The colour of cells and pixels that are not finite, from the theme's one token for them. */
import type { Rgb } from "./viridis";

/** Reads `#e800c4`. */
export function rgbOf(hex: string): Rgb {
  const word = Number.parseInt(hex.trim().slice(1), 16);
  return [word >> 16, (word >> 8) & 255, word & 255];
}

export function nanColor(): Rgb {
  return rgbOf(getComputedStyle(document.documentElement).getPropertyValue("--nan"));
}
