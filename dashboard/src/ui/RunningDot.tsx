/** The dot of a training run: bright for a second, dim for a second. */
import { useEffect, useState } from "react";
import { nextTick, onFrameAt } from "@/lib/frameClock";

const BEAT_MS = 1000;

/**
 * It changes with the panels, on the clock of the page. A CSS animation, even one of four steps, makes the browser
 * prepare sixty frames a second, which slows a training on the same machine.
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
