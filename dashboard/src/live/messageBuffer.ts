/** Messages of a run between its stream and the page. */

import type { StreamMessage } from "@/api/types";
import { onNextFrame } from "@/lib/frameClock";

/** Messages that a training run sends all the time. */
const HIGH_RATE_TYPES: ReadonlySet<StreamMessage["type"]> = new Set(["state", "scalars", "event", "ping"]);

/**
 * Passes messages on in order. While a run trains they wait for the next frame, which shows them all. Any other
 * message, such as a pause, is passed on at once, together with those that wait. In a hidden tab nothing waits:
 * nothing is drawn there, and its timers are slow.
 */
export class MessageBuffer {
  private waiting: [StreamMessage, number][] = [];
  private running = false;
  private cancel: (() => void) | null = null;

  constructor(
    private readonly take: (message: StreamMessage, at: number) => void,
    private readonly isSeen: () => boolean = () => true,
  ) {}

  push(message: StreamMessage): void {
    const wasRunning = this.running;
    if (message.type === "state" || message.type === "hello")
      this.running = message.state.state === "running";
    this.waiting.push([message, Date.now()]);
    const canWait = wasRunning && this.running && HIGH_RATE_TYPES.has(message.type) && this.isSeen();
    if (!canWait) this.flush();
    else this.cancel ??= onNextFrame(() => this.flush());
  }

  /** Hands on what waits. */
  flush(): void {
    this.cancel?.();
    this.cancel = null;
    const messages = this.waiting;
    this.waiting = [];
    for (const [message, at] of messages) this.take(message, at);
  }

  /** What waits is not wanted any more. */
  close(): void {
    this.waiting = [];
    this.flush();
  }
}
