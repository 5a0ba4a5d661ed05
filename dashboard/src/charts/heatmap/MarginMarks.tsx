/** Small filled rectangles on a canvas, for the strips and bars in the margins of a map. */
import { useCanvas } from "@/charts/useCanvas";

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
  const canvas = useCanvas({ width, height }, ({ context }) => {
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
