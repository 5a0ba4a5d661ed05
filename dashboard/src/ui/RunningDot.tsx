/** The dot of a run that goes on: bright for a second, dim for a second. */
import { useSyncExternalStore } from "react";
import { nextBeat } from "@/lib/beat";

const BEAT_MS = 1000;

const shown = new Set<() => void>();
let timer: ReturnType<typeof setTimeout> | undefined;
let dim = false;

function awaitBeat(): void {
  const now = performance.now();
  timer = setTimeout(beat, nextBeat(now, BEAT_MS) - now);
}

function beat(): void {
  awaitBeat();
  dim = !dim;
  for (const changed of shown) changed();
}

function subscribe(changed: () => void): () => void {
  if (shown.size === 0) awaitBeat();
  shown.add(changed);
  return () => {
    shown.delete(changed);
    if (shown.size === 0) clearTimeout(timer);
  };
}

/**
 * It changes with the panels, on the beat of the page. As a CSS animation, even one of four steps, it has the browser
 * prepare sixty pictures a second, which a training on the same machine pays for.
 */
export function RunningDot() {
  const isDim = useSyncExternalStore(subscribe, () => dim);
  return (
    <span
      className={`mx-1 size-1.5 rounded-full bg-current ${isDim ? "opacity-35 motion-reduce:opacity-100" : ""}`}
    />
  );
}
