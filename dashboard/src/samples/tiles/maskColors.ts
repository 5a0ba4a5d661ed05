/** Colours of the classes of a mask. Class 0 is the background and stays clear. */
import { rgbOf } from "@/charts/colors/nanColor";
import { css, type Rgb } from "@/charts/colors/viridis";

export const BACKGROUND = 0;
/** Pixels that no class counts. */
export const IGNORED = 255;
/** Turns of the colour wheel between one class and the next after the first six: they never come near each other. */
const GOLDEN_ANGLE = 137.508;

export interface MaskTokens {
  series: readonly Rgb[];
  ignored: Rgb;
}

/** The colours of the theme as it is now. */
export function maskTokens(): MaskTokens {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string) => rgbOf(style.getPropertyValue(name));
  return {
    series: [1, 2, 3, 4, 5, 6].map((index) => read(`--series-${index}`)),
    ignored: read("--line3"),
  };
}

/** Colour of a class: those of the series for the first six, then hues far from each other. */
export function classColour(id: number, { series, ignored }: MaskTokens): Rgb {
  if (id === IGNORED) return ignored;
  return series[id - 1] ?? fromHue((id * GOLDEN_ANGLE) % 360);
}

export function classCss(id: number, tokens: MaskTokens): string {
  return css(classColour(id, tokens));
}

function fromHue(hue: number): Rgb {
  const channel = (offset: number) => {
    const position = (offset + hue / 30) % 12;
    return Math.round(255 * (0.5 - 0.38 * Math.max(-1, Math.min(position - 3, 9 - position, 1))));
  };
  return [channel(0), channel(8), channel(4)];
}

/** Replaces the grey levels of a picture of classes, in place, by their colours; the background becomes clear. */
export function colourClasses(pixels: Uint8ClampedArray, tokens: MaskTokens): void {
  const table = Array.from({ length: 256 }, (_, id) => classColour(id, tokens));
  for (let at = 0; at < pixels.length; at += 4) {
    const id = pixels[at] as number;
    const [red, green, blue] = table[id] as Rgb;
    pixels[at] = red;
    pixels[at + 1] = green;
    pixels[at + 2] = blue;
    pixels[at + 3] = id === BACKGROUND ? 0 : 255;
  }
}

/** Keeps only the pixels, of colour and not clear, next to a pixel of another class; `classes` are grey levels. */
export function keepBorders(pixels: Uint8ClampedArray, classes: Uint8ClampedArray, width: number): void {
  const row = width * 4;
  for (let at = 0; at < pixels.length; at += 4) {
    const id = classes[at];
    const isBorder = [at - 4, at + 4, at - row, at + row].some((next) => (classes[next] ?? id) !== id);
    if (!isBorder) pixels[at + 3] = 0;
  }
}

/** A picture of classes in their colours, each on a canvas of its own: the areas, and their borders. */
export interface PaintedMask {
  areas: HTMLCanvasElement;
  borders: HTMLCanvasElement;
}

export function paintMask(picture: ImageBitmap, tokens: MaskTokens): PaintedMask {
  const { width, height } = picture;
  const areas = emptyCanvas(width, height);
  const borders = emptyCanvas(width, height);
  const context = areas.getContext("2d", { willReadFrequently: true });
  if (context === null) return { areas, borders };
  context.drawImage(picture, 0, 0);
  const classes = context.getImageData(0, 0, width, height).data;
  const image = context.getImageData(0, 0, width, height);
  colourClasses(image.data, tokens);
  context.putImageData(image, 0, 0);
  keepBorders(image.data, classes, width);
  borders.getContext("2d")?.putImageData(image, 0, 0);
  return { areas, borders };
}

function emptyCanvas(width: number, height: number): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  return canvas;
}
