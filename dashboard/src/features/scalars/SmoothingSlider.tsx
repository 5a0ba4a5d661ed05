/** How much a smoothed line counts the points around each: the same slider for every chart of scalars. */
import { formatFixed } from "@/lib/format";
import { useUrlState } from "@/lib/urlState";

const MOST = 0.99;

/** The weight of the address, for as long as it is a number from 0 to 0.99. */
export function useSmoothing(initial: number): [weight: number, setWeight: (weight: number) => void] {
  const [text, setText] = useUrlState("smooth", String(initial));
  const weight = text.trim() === "" ? Number.NaN : Number(text);
  const isUsable = Number.isFinite(weight) && weight >= 0 && weight <= 1;
  return [isUsable ? Math.min(MOST, weight) : initial, (next) => setText(String(next))];
}

interface SmoothingSliderProps {
  weight: number;
  onWeight: (weight: number) => void;
  className?: string;
}

export function SmoothingSlider({ weight, onWeight, className = "w-20" }: SmoothingSliderProps) {
  return (
    <label className="flex shrink-0 items-center gap-2">
      Smoothing
      <input
        type="range"
        min={0}
        max={MOST}
        step={0.01}
        value={weight}
        onChange={(event) => onWeight(Number(event.target.value))}
        className={`h-6 accent-[var(--accent)] ${className}`}
      />
      <span className="w-7 text-t2">{formatFixed(weight, 2)}</span>
    </label>
  );
}
