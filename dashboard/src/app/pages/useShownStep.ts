/** Shows a step in the loss chart: the steps around it, and the cursor on it. */
import { useUrlState } from "@/lib/urlState";

const BEFORE = 40;
const AFTER = 10;

export function useShownStep(): (step: number) => void {
  const [, setZoom] = useUrlState("zoom", "");
  const [, setAt] = useUrlState("at", "");
  return (step) => {
    setZoom(`${Math.max(0, step - BEFORE)}-${step + AFTER}`);
    setAt(String(step));
  };
}
