/** A canvas in device pixels with the theme's colours, drawn again when its size, the screen or the fonts change. */
import { type RefObject, useEffect, useLayoutEffect, useReducer, useRef } from "react";
import type { Size } from "./useSize";

export interface Pen extends Size {
  /** Scaled so that one unit is a CSS pixel. */
  context: CanvasRenderingContext2D;
  /** A colour of the theme by the name of its token. */
  token: (name: string) => string;
}

/** A chart takes focus and keeps its keys for itself. */
export const OWN_KEYS = { tabIndex: 0, "data-keys": "own" } as const;

/** Class and style of a canvas that fills the element around it. */
export function canvasLook({ width, height }: Size) {
  return { className: "absolute inset-0 block", style: { width, height } };
}

/** Sizes a canvas and clears it; null where the browser gives no context. */
export function preparePen(canvas: HTMLCanvasElement, { width, height }: Size): Pen | null {
  const context = canvas.getContext("2d");
  if (context === null) return null;
  const ratio = devicePixelRatio;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  // Setting a size costs the canvas its memory anew; one that fits is only cleared.
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const style = getComputedStyle(canvas);
  return { context, width, height, token: (name) => style.getPropertyValue(`--${name}`).trim() };
}

/** The canvas that `paint` draws on after each render; `exported` is set to it for the export menu. */
export function useCanvas(
  size: Size,
  paint: (pen: Pen) => void,
  exported?: RefObject<HTMLCanvasElement | null>,
): RefObject<HTMLCanvasElement | null> {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [, paintAgain] = useReducer((count: number) => count + 1, 0);
  useLayoutEffect(() => {
    if (canvas.current === null || size.width <= 0 || size.height <= 0) return;
    const pen = preparePen(canvas.current, size);
    if (pen !== null) paint(pen);
    if (exported) exported.current = canvas.current;
  });
  useEffect(() => {
    let isGone = false;
    // Until the font is there the system's stands in.
    if (document.fonts.status !== "loaded") void document.fonts.ready.then(() => isGone || paintAgain());
    const screen = matchMedia(`(resolution: ${devicePixelRatio}dppx)`);
    screen.addEventListener("change", paintAgain);
    return () => {
      isGone = true;
      screen.removeEventListener("change", paintAgain);
    };
  }, []);
  return canvas;
}
