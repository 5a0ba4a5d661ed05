/** One matrix of a comparison: source menu above, statistics below, cursor and zoom shared. */
import { type ReactNode, useMemo } from "react";
import type { Theme } from "@/charts/colors/viridis";
import { HeatMap } from "@/charts/heatmap/HeatMap";
import { type HeatPreset, presetScale } from "@/charts/heatmap/heatScale";
import type { HeatCell, HeatWindow } from "@/charts/heatmap/heatWindow";
import { formatCount, formatFixed } from "@/lib/format";
import type { CosineMatrix } from "@/live/forces";
import { Button, Icon, Menu, type MenuItem } from "@/ui";
import { labelOf, type MatrixChoice, SOURCES } from "./sources";

export interface MatrixSideProps {
  side: "left" | "right";
  choice: MatrixChoice;
  onChoice: (choice: MatrixChoice) => void;
  tensors: readonly string[];
  /** The tensor that is shown when none is chosen. */
  tensor: string;
  matrix: CosineMatrix | null;
  error: string | null;
  preset: HeatPreset;
  theme: Theme;
  cursor: HeatCell | null;
  onCursor: (cell: HeatCell | null) => void;
  onPick: (cell: HeatCell) => void;
  window: HeatWindow | null;
  onWindow: (window: HeatWindow | null) => void;
  strip: readonly string[] | null;
  readout: ReactNode;
  onFull: () => void;
  onHeight?: (height: number) => void;
}

const NONE = new Float32Array();

export function MatrixSide(props: MatrixSideProps) {
  const { choice, matrix, error, preset, theme, strip } = props;
  const drawn = useMemo(
    () => matrix && { rows: matrix.side, columns: matrix.side, values: matrix.values },
    [matrix],
  );
  // Only the range of the values depends on them; the other scales need not be made anew each step.
  const spanned = (preset === "range" ? matrix?.values : null) ?? NONE;
  const scale = useMemo(() => presetScale(preset, spanned, theme), [preset, spanned, theme]);
  return (
    <div className="flex min-w-0 flex-1 flex-col" data-matrix={props.side}>
      <div className="flex h-7 items-center gap-2">
        <SourceMenu {...props} />
        {matrix?.averaged && (
          <span className="flex min-w-0 items-center gap-1 text-t3">
            <span className="truncate">
              {formatCount(matrix.side)} of {formatCount(matrix.rows)} rows, block means
            </span>
            <Button small look="ghost" onClick={props.onFull}>
              Load all
            </Button>
          </span>
        )}
      </div>
      {matrix && drawn ? (
        <HeatMap
          label={`Cosines of ${labelOf(choice.source)}, ${matrix.rows} rows.`}
          matrix={drawn}
          {...{ scale, theme, strip }}
          cursor={props.cursor}
          onCursor={props.onCursor}
          onPick={props.onPick}
          window={props.window}
          onWindow={props.onWindow}
          readout={props.readout}
          onHeight={props.onHeight}
          footer={<Statistics matrix={matrix} />}
        />
      ) : (
        <div className="min-h-0 flex-1 py-1 text-t2">{error}</div>
      )}
    </div>
  );
}

/** Of all pairs of different rows, also when the matrix is averaged. */
function Statistics({ matrix }: { matrix: CosineMatrix }) {
  return (
    <p className="flex h-7 shrink-0 items-center gap-4 text-t3" data-step={matrix.step}>
      {(["mean", "std", "max"] as const).map((name) => (
        <span key={name}>
          {name}{" "}
          <span className="font-semibold text-text" data-figure={name} data-value={String(matrix[name])}>
            {formatFixed(matrix[name], 3)}
          </span>
        </span>
      ))}
    </p>
  );
}

function SourceMenu({ side, choice, onChoice, tensors, tensor }: MatrixSideProps) {
  const own = choice.tensor ?? tensor;
  const sources: MenuItem[] = SOURCES.map(({ value, label }) => ({
    label,
    checked: value === choice.source,
    onSelect: () => onChoice({ ...choice, source: value }),
  }));
  const others: MenuItem[] = tensors.map((name) => ({
    label: name,
    checked: name === own,
    onSelect: () => onChoice({ ...choice, tensor: name === tensor ? null : name }),
  }));
  return (
    <Menu
      align="start"
      heading={side === "left" ? "Cosines of" : "Compare with cosines of"}
      trigger={
        <Button small look="ghost" className="-ml-2" aria-label={`Source: ${labelOf(choice.source)} ${own}`}>
          {labelOf(choice.source)}
          {choice.tensor !== null && <span className="font-normal text-t3">{choice.tensor}</span>}
          <Icon name="chevronDown" size={14} className="text-t3" />
        </Button>
      }
      items={tensors.length > 1 ? [...sources, "line", ...others] : sources}
    />
  );
}
