/** Which mask lies over the images, and how much of the image shows through. */
import { useUrlChoice, useUrlState } from "@/lib/urlState";
import { Segmented } from "@/ui";
import type { MaskOut } from "./maskTypes";
import type { MaskChoice } from "./tiles/PictureTiles";

const LABELS = { mask: "Target", prediction: "Prediction" } as const;
const DEFAULT_PERCENT = "50";

/** The choice is kept in the address; null for samples without a mask. */
export function useMaskChoice(mask: MaskOut | null): [MaskChoice | null, MaskControls] {
  const [text, setText] = useUrlState("opacity", DEFAULT_PERCENT);
  const [layer, setLayer] = useUrlChoice("layer", ["mask", "prediction"]);
  const percent = /^\d{1,3}$/.test(text) ? Math.min(100, Number(text)) : Number(DEFAULT_PERCENT);
  const controls = { percent, setPercent: (next: number) => setText(String(next)), layer, setLayer };
  if (mask === null) return [null, controls];
  const shown = mask.layers.includes(layer) ? layer : (mask.layers[0] ?? "mask");
  return [
    { layer: shown, opacity: percent / 100 },
    { ...controls, layer: shown },
  ];
}

export interface MaskControls {
  percent: number;
  setPercent: (percent: number) => void;
  layer: MaskChoice["layer"];
  setLayer: (layer: MaskChoice["layer"]) => void;
}

export function MaskTools({ mask, controls }: { mask: MaskOut; controls: MaskControls }) {
  const { percent, setPercent, layer, setLayer } = controls;
  return (
    <>
      {mask.layers.length > 1 && (
        <Segmented
          label="Which mask is shown"
          value={layer}
          choices={mask.layers.map((value) => ({ value, label: LABELS[value] }))}
          onChange={setLayer}
        />
      )}
      <label className="flex items-center gap-2 text-label whitespace-nowrap text-t3">
        Mask {percent} %
        <input
          type="range"
          min={0}
          max={100}
          step={5}
          value={percent}
          aria-label="Opacity of the mask"
          onChange={(event) => setPercent(Number(event.currentTarget.value))}
          className="h-6 w-20 accent-(--accent)"
        />
      </label>
    </>
  );
}
