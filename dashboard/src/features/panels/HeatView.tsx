/** A matrix as a small heat map with its scale, its statistics and a cursor that the arrows move. */
import { type KeyboardEvent, type PointerEvent, useEffect, useMemo, useRef, useState } from "react";
import type { Theme } from "@/charts/colors/viridis";
import { heatPixels, heatScale } from "@/charts/heatmap/heatScale";
import { useSize } from "@/charts/useSize";
import { formatValue } from "@/lib/format";
import type { Shaped } from "./dataShape";
import { matrixStatistics } from "./tableModel";

interface HeatViewProps {
  name: string;
  matrix: Extract<Shaped, { kind: "matrix" }>;
  theme: Theme;
}

const BROKEN = { light: [204, 59, 40], dark: [242, 112, 92] } as const;
const LARGEST_CELL = 24;

export function HeatView({ name, matrix, theme }: HeatViewProps) {
  const { rows, columns, values } = matrix;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [container, area] = useSize<HTMLDivElement>();
  const [at, setAt] = useState<{ row: number; column: number } | null>(null);
  const scale = useMemo(() => heatScale(values, theme), [values, theme]);
  // Whole pixels per cell where they fit; larger matrices are shrunk to the panel.
  const room = Math.min((area.width - 24) / columns, (area.height - 8) / rows);
  const cell = room >= 1 ? Math.min(LARGEST_CELL, Math.floor(room)) : Math.max(room, 0);

  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context) return;
    element.width = columns;
    element.height = rows;
    context.putImageData(new ImageData(heatPixels(values, scale, BROKEN[theme]), columns, rows), 0, 0);
  }, [values, rows, columns, scale, theme]);

  const move = (event: KeyboardEvent) => {
    const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Escape") return setAt(null);
    if (!by) return;
    event.preventDefault();
    const { row, column } = at ?? { row: 0, column: 0 };
    setAt({
      row: Math.min(rows - 1, Math.max(0, row + (at ? (by[0] as number) : 0))),
      column: Math.min(columns - 1, Math.max(0, column + (at ? (by[1] as number) : 0))),
    });
  };
  const hover = (event: PointerEvent) => {
    const { offsetX, offsetY } = event.nativeEvent;
    const [row, column] = [Math.floor(offsetY / cell), Math.floor(offsetX / cell)];
    setAt(row < rows && column < columns && row >= 0 && column >= 0 ? { row, column } : null);
  };
  const value = at === null ? null : (values[at.row * columns + at.column] ?? null);
  return (
    <div className="flex min-h-40 flex-1 flex-col">
      <div
        ref={container}
        role="img"
        aria-label={`${name}, ${rows} by ${columns}, from ${formatValue(scale.low)} to ${formatValue(scale.high)}. Arrows move the cursor.`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrows move a cursor that is read out
        tabIndex={0}
        data-keys="own"
        onKeyDown={move}
        className="relative mx-3 min-h-0 flex-1 overflow-hidden rounded-mark"
      >
        <canvas
          ref={canvas}
          onPointerMove={hover}
          onPointerLeave={() => setAt(null)}
          className="block"
          style={{ width: columns * cell, height: rows * cell, imageRendering: "pixelated" }}
        />
        {at && (
          <span
            className="pointer-events-none absolute outline-2 outline-text"
            style={{
              left: at.column * cell,
              top: at.row * cell,
              width: Math.max(cell, 2),
              height: Math.max(cell, 2),
            }}
          />
        )}
      </div>
      <div className="flex h-8 shrink-0 items-center gap-4 px-3 text-t3">
        <span className="flex items-center gap-2 text-label">
          {formatValue(scale.low, 3)}
          <span className="h-2 w-16 rounded-mark" style={{ background: scale.gradient }} />
          {formatValue(scale.high, 3)}
        </span>
        {at === null || value === null ? (
          matrixStatistics(matrix).map(([label, figure]) => (
            <span key={label}>
              {label}{" "}
              <span className="text-text">
                {typeof figure === "number" ? formatValue(figure, 3) : figure}
              </span>
            </span>
          ))
        ) : (
          <span aria-live="polite">
            row {at.row}, column {at.column}{" "}
            <span className={`font-medium ${Number.isFinite(value) ? "text-text" : "text-bad"}`}>
              {formatValue(value)}
            </span>
          </span>
        )}
      </div>
    </div>
  );
}
