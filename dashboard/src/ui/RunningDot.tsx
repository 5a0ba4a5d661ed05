/** The dot of a run that goes on: bright for a second, dim for a second. */
import { useEffect, useState } from "react";
import { nextTick, onFrameAt } from "@/lib/frameClock";

const BEAT_MS = 1000;

/**
 * It changes with the panels, on the beat of the page. As a CSS animation, even one of four steps, it has the browser
 * prepare sixty pictures a second, which a training on the same machine pays for.
 */
export function RunningDot() {
  const [beat, setBeat] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each beat awaits the next
  useEffect(() => {
    const next = nextTick(performance.now(), BEAT_MS);
    return onFrameAt(next, () => setBeat(next));
  }, [beat]);
  const isDim = beat % (2 * BEAT_MS) !== 0;
  return (
    <span
      className={`mx-1 size-1.5 rounded-full bg-current ${isDim ? "opacity-35 motion-reduce:opacity-100" : ""}`}
    />
  );
}
