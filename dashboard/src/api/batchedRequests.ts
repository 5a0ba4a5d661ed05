/** Requests that are made at nearly the same moment, sent as one. */

/** How long the first request waits for others: panels on one clock send theirs within some ten milliseconds. */
export const BATCH_WINDOW_MS = 30;
/** Questions that the server takes at once. */
export const MAX_BATCH = 16;

/** Asks for a path below `/api/v1`, as `fetch` does. */
export type Fetch = (path: string, signal?: AbortSignal) => Promise<Response>;

interface WaitingRequest {
  /** Start of the path. Requests with the same start can be sent as one. */
  prefix: string;
  rest: string;
  signal: AbortSignal | undefined;
  resolve: (answer: Response) => void;
  reject: (reason: unknown) => void;
}

const PATH = /^(\/runs\/[^/]+\/debug\/)(.+)$/;

/**
 * The same questions and answers, in fewer requests where they look into a run. A browser spends milliseconds on
 * each request and the run's process wakes some ten times for it, which a training beside them pays for.
 */
export function batchRequests(send: Fetch): Fetch {
  let waiting: WaitingRequest[] = [];

  const sendAll = () => {
    const requests = waiting;
    waiting = [];
    for (const group of groups(requests)) void answer(send, group);
  };

  return (path, signal) => {
    const [, prefix, rest] = PATH.exec(path) ?? [];
    if (prefix === undefined || rest === undefined) return send(path, signal);
    return new Promise((resolve, reject) => {
      if (waiting.length === 0) setTimeout(sendAll, BATCH_WINDOW_MS);
      waiting.push({ prefix, rest, signal, resolve, reject });
    });
  };
}

/** Requests that were not aborted, grouped by prefix, at most as many as the server takes. */
function groups(requests: readonly WaitingRequest[]): WaitingRequest[][] {
  const batches: WaitingRequest[][] = [];
  for (const request of requests) {
    if (request.signal?.aborted) {
      request.reject(request.signal.reason);
      continue;
    }
    const group = batches.find((one) => one[0]?.prefix === request.prefix && one.length < MAX_BATCH);
    if (group === undefined) batches.push([request]);
    else group.push(request);
  }
  return batches;
}

async function answer(send: Fetch, group: readonly WaitingRequest[]): Promise<void> {
  try {
    const answers = await parts(await send(pathOf(group)), group.length);
    for (const [index, { resolve }] of group.entries()) resolve(answers[index] as Response);
  } catch (error) {
    for (const { reject } of group) reject(error);
  }
}

function pathOf(group: readonly WaitingRequest[]): string {
  const prefix = group[0]?.prefix ?? "";
  if (group.length === 1) return `${prefix}${group[0]?.rest}`;
  return `${prefix}together?${new URLSearchParams(group.map(({ rest }) => ["ask", rest]))}`;
}

/** Each question's own answer; where they were refused as a whole, that is the answer to each. */
async function parts(whole: Response, count: number): Promise<Response[]> {
  if (count === 1) return [whole];
  if (!whole.ok) return Array.from({ length: count }, () => whole.clone());
  return split(await whole.arrayBuffer());
}

interface Head {
  status: number;
  bytes: number;
}

/** A line of JSON with the status and the length of each answer, then their bodies one after the other. */
export function split(whole: ArrayBuffer): Response[] {
  let start = new Uint8Array(whole).indexOf("\n".charCodeAt(0)) + 1;
  const heads = JSON.parse(new TextDecoder().decode(whole.slice(0, start))) as Head[];
  const answers = heads.map(({ status, bytes }) => {
    start += bytes;
    return new Response(whole.slice(start - bytes, start), { status });
  });
  if (start !== whole.byteLength) throw new TypeError("the batched answer is incomplete");
  return answers;
}
