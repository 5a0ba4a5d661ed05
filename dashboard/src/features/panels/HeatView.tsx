/** A matrix as a heat map with its scale and its statistics, or the value under the cursor. */
import { useMemo, useState } from "react";
import type { Theme } from "@/charts/colors/viridis";
import { HeatMap } from "@/charts/heatmap/HeatMap";
import { heatScale } from "@/charts/heatmap/heatScale";
import type { HeatCell, HeatWindow } from "@/charts/heatmap/heatWindow";
import { formatValue } from "@/lib/format";
import type { Shaped } from "./dataShape";
import { matrixStatistics } from "./tableModel";

interface HeatViewProps {
  name: string;
  matrix: Extract<Shaped, { kind: "matrix" }>;
  theme: Theme;
}

export function HeatView({ name, matrix, theme }: HeatViewProps) {
  const { rows, columns, values } = matrix;
  const [cursor, setCursor] = useState<HeatCell | null>(null);
  const [window, setWindow] = useState<HeatWindow | null>(null);
  const scale = useMemo(() => heatScale(values, theme), [values, theme]);
  const at = cursor && cursor.row < rows && cursor.column < columns ? cursor : null;
  const value = at === null ? null : (values[at.row * columns + at.column] ?? null);
  return (
    <div className="flex min-h-40 flex-1 flex-col">
      <div className="flex min-h-0 flex-1 px-3">
        <HeatMap
          label={`${name}, ${rows} by ${columns}, from ${formatValue(scale.low)} to ${formatValue(scale.high)}.`}
          {...{ matrix, scale, theme, window }}
          cursor={at}
          onCursor={setCursor}
          onWindow={setWindow}
        />
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
