/** Small filled rectangles on a canvas, for the strips and bars in the margins of a map. */
import { useLayoutEffect, useRef } from "react";

export interface Mark {
  x: number;
  y: number;
  width: number;
  height: number;
  colour: string;
}

interface MarginMarksProps {
  width: number;
  height: number;
  marks: readonly Mark[];
  className?: string;
  style?: { left: number; top: number };
}

export function MarginMarks({ width, height, marks, className = "", style }: MarginMarksProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context || width <= 0 || height <= 0) return;
    const ratio = devicePixelRatio;
    element.width = Math.round(width * ratio);
    element.height = Math.round(height * ratio);
    context.scale(ratio, ratio);
    for (const mark of marks) {
      context.fillStyle = mark.colour;
      context.fillRect(mark.x, mark.y, mark.width, mark.height);
    }
  });
  return (
    <canvas
      ref={canvas}
      className={`pointer-events-none block ${className}`}
      style={{ ...style, width: Math.max(width, 0), height: Math.max(height, 0) }}
    />
  );
}
