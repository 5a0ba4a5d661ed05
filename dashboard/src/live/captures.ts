/** What is captured of the run's steps: a panel says what it shows, and gets the newest of it. */
import { useEffect, useRef } from "react";
import { create } from "zustand";
import { api, batchedApi, type Reader } from "@/api/client";
import type { CaptureMessage, StateOut } from "@/api/types";
import { formatCount } from "@/lib/format";
import { useInView } from "@/lib/inView";
import { useThrottledStore } from "@/lib/useThrottledStore";
import { hasEnded } from "./commandAvailability";
import { useKeptStop } from "./keptStop";
import { useLatestRequest } from "./latestRequest";
import { RUNNING_MS } from "./stepRequest";
import { useRun } from "./store";
import { type CaptureSpec, type Subscription, subscriptionId, WantedCaptures } from "./subscriptions";

export type Thinning = NonNullable<CaptureMessage["thinning"]>;

/** What this tab shows, reported to the stream of the run that it follows. */
export const wantedCaptures = new WantedCaptures((wanted) => useWanted.setState({ wanted }));

/** `followRun` sends this list. */
export const useWanted = create<{ wanted: readonly Subscription[] }>()(() => ({ wanted: [] }));

/** The newest message of each subscription. */
export const useCaptureMessages = create<Record<string, CaptureMessage | undefined>>()(() => ({}));

export function applyCapture(message: CaptureMessage): void {
  useCaptureMessages.setState({ [message.id]: message });
}

/** Another run is followed, or its stream started over. */
export function forgetCaptures(): void {
  useCaptureMessages.setState({}, true);
}

export interface CaptureRequest {
  runId: string;
  /** Names the capture to read; null where only the answer will tell. */
  etag: string | null;
  /** Of an ended run: the stop to show in place of what was kept last. */
  stop: string | null;
  /** While the run is running, requests of all panels are sent together. */
  reader: Reader;
  signal: AbortSignal;
}

export interface Capture<T> {
  data: T | null;
  /** Finished steps after the captured one; null before one was captured. */
  step: number | null;
  /** What is left out while the run is running; null where nothing is. */
  thinning: Thinning | null;
  /** Whether a newer one is known and on its way. */
  stale: boolean;
  error: Error | null;
  running: boolean;
}

export interface CaptureSource<T> {
  /** Null while nothing is to be shown; what was shown stays. */
  spec: CaptureSpec | null;
  /** Distinguishes requests for the same capture, such as two rows of one tensor. */
  variant?: string;
  /** Names what a paused or stored run shows now; null: nothing was captured. */
  moment: (state: StateOut) => string | number | null;
  load: (request: CaptureRequest) => Promise<T>;
}

/**
 * The newest capture of what `spec` names, for as long as the component is in view.
 *
 * A running run reports its captures through the stream. A paused, stepped or stored run shows what it has: each
 * change of its state is followed by a request at once.
 */
export function useCapture<T>({ spec, variant = "", moment, load }: CaptureSource<T>): Capture<T> {
  const isInView = useInView();
  const runId = useRun((run) => run.runId);
  const restarts = useRun((run) => run.restarts);
  const running = useRun(({ state }) => state?.parked !== true && !hasEnded(state));
  const reports = useRun((run) => run.reportsCaptures) && running;
  // The first one is shown as soon as it is there.
  const hasData = useRef(false);
  const intervalMs = running && hasData.current ? RUNNING_MS : 0;
  const id = spec === null ? null : subscriptionId(spec);
  const stop = useKeptStop();
  useSubscription(spec);

  const message = useThrottledStore(
    useCaptureMessages,
    (messages) => (id === null ? null : (messages[id] ?? null)),
    intervalMs,
  );
  const now = useThrottledStore(useRun, ({ state }) => (state === null ? null : moment(state)), intervalMs);
  const step = useRun(({ state }) => (running ? null : (state?.step ?? null)));
  // Before the first report, what an earlier viewer left is better than nothing.
  const newest = reports ? (message?.etag ?? (now === null ? null : "first")) : now;
  const key =
    runId === null || id === null || newest === null
      ? null
      : JSON.stringify([runId, restarts, id, variant, newest, stop]);
  const kept = useRef<string | null>(null);
  if (isInView) kept.current = key;

  const isCurrent = message !== null && (running || message.step === step);
  const etag = isCurrent ? message.etag : null;
  const request = (_: string, signal: AbortSignal) =>
    load({ runId: runId ?? "", etag, stop, reader: running ? batchedApi : api, signal });
  const latest = useLatestRequest(kept.current, request, { intervalMs });
  hasData.current = latest.data !== null;
  return {
    data: latest.data,
    step: isCurrent ? message.step : step,
    thinning: running ? (message?.thinning ?? null) : null,
    stale: !running && latest.data !== null && latest.key !== kept.current,
    error: latest.error,
    running,
  };
}

/** Counts this panel among those that show `spec`, while it is in view. */
export function useSubscription(spec: CaptureSpec | null): void {
  const isInView = useInView();
  const isFollowing = useRun((run) => run.runId !== null);
  const isShown = spec !== null && isInView && isFollowing;
  const id = spec === null ? null : subscriptionId(spec);
  const current = useRef(spec);
  current.current = spec;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the id stands for the spec
  useEffect(() => {
    return isShown && current.current !== null ? wantedCaptures.add(current.current) : undefined;
  }, [id, isShown]);
}

const ORDINALS = new Intl.PluralRules("en", { type: "ordinal" });
const SUFFIXES: Record<string, string> = { one: "st", two: "nd", few: "rd", other: "th" };

/** "every 14th step, 64 of 256 samples"; empty where nothing is left out. */
export function thinningText({ every, shown, of }: Thinning): string {
  const parts: string[] = [];
  if (every > 1) parts.push(`every ${formatCount(every)}${SUFFIXES[ORDINALS.select(every)]} step`);
  if (shown !== null && of !== null && shown < of)
    parts.push(`${formatCount(shown)} of ${formatCount(of)} samples`);
  return parts.join(", ");
}
