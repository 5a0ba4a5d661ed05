/** Reads one connection of server-sent events, and says how long to wait before the next. */
import { problemOf, requestHeaders } from "./client";
import { SseParser } from "./sseParser";

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 5_000;
/** A ping comes every second. A link that is silent for this long is closed and opened again. */
const SILENCE_MS = 10_000;

/** Doubling waits with some chance in them, so that fifty pages do not knock at the same moment. */
export function waitBeforeRetry(attempt: number, chance = Math.random()): number {
  const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt);
  return wait * (0.5 + chance / 2);
}

export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

export interface StreamEnd {
  status: number;
  why: string | null;
}

/** Reads one connection until it ends; answers the status and the reason when it was refused. */
export async function readEvents<M>(
  address: string,
  lastId: string | null,
  signal: AbortSignal,
  onEvent: (id: string, message: M) => void,
  onOpen: () => void,
): Promise<StreamEnd> {
  const silence = new AbortController();
  const both = AbortSignal.any([signal, silence.signal]);
  let timer = setTimeout(() => silence.abort(), SILENCE_MS);
  try {
    const headers = {
      ...requestHeaders(),
      Accept: "text/event-stream",
      ...(lastId ? { "Last-Event-ID": lastId } : {}),
    };
    const response = await fetch(address, {
      headers,
      signal: both,
      cache: "no-store",
    });
    if (!response.ok || response.body === null)
      return { status: response.status, why: (await problemOf(response)).message };
    onOpen();
    const parser = new SseParser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return { status: 200, why: null };
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
      for (const event of parser.push(value)) onEvent(event.id, JSON.parse(event.data) as M);
    }
  } catch (error) {
    // A broken connection is the ordinary case here: the loop outside opens it again with the last id.
    if (error instanceof SyntaxError) throw error;
    return { status: 0, why: null };
  } finally {
    clearTimeout(timer);
  }
}
