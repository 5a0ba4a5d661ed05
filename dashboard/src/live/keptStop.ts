/** Which stop of an ended run is shown, as the address says. */
import { useUrlState } from "@/lib/urlState";
import { hasEnded } from "./commandAvailability";
import { useRunState } from "./hooks";

/** Its id; null while the run is live, and where what was kept last is shown. */
export function useKeptStop(): string | null {
  const [stop] = useUrlState("stop", "");
  const ended = useRunState(hasEnded) ?? false;
  return ended && stop !== "" ? stop : null;
}
