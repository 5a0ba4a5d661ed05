/** Questions that come at nearly the same moment, asked in one request. */

/** How long the first one waits for the others: panels that keep one beat ask within some ten milliseconds. */
export const GATHER_MS = 30;
/** Questions that the server takes at once. */
export const MOST_TOGETHER = 16;

/** Asks for a path below `/api/v1`, as `fetch` does. */
export type Ask = (path: string, signal?: AbortSignal) => Promise<Response>;

interface Question {
  /** What the path begins with: of all that can be asked together it is the same. */
  place: string;
  rest: string;
  signal: AbortSignal | undefined;
  take: (answer: Response) => void;
  fail: (reason: unknown) => void;
}

const PATH = /^(\/runs\/[^/]+\/debug\/)(.+)$/;

/**
 * The same questions and answers, in fewer requests where they look into a run. A browser spends milliseconds on
 * each request and the run's process wakes some ten times for it, which a training beside them pays for.
 */
export function gathering(ask: Ask): Ask {
  let waiting: Question[] = [];

  const askAll = () => {
    const questions = waiting;
    waiting = [];
    for (const group of groups(questions)) void answer(ask, group);
  };

  return (path, signal) => {
    const [, place, rest] = PATH.exec(path) ?? [];
    if (place === undefined || rest === undefined) return ask(path, signal);
    return new Promise((take, fail) => {
      if (waiting.length === 0) setTimeout(askAll, GATHER_MS);
      waiting.push({ place, rest, signal, take, fail });
    });
  };
}

/** What is still wanted, by place, as many at once as the server takes. */
function groups(questions: readonly Question[]): Question[][] {
  const found: Question[][] = [];
  for (const question of questions) {
    if (question.signal?.aborted) {
      question.fail(question.signal.reason);
      continue;
    }
    const group = found.find((one) => one[0]?.place === question.place && one.length < MOST_TOGETHER);
    if (group === undefined) found.push([question]);
    else group.push(question);
  }
  return found;
}

async function answer(ask: Ask, group: readonly Question[]): Promise<void> {
  try {
    const answers = await parts(await ask(pathOf(group)), group.length);
    for (const [index, { take }] of group.entries()) take(answers[index] as Response);
  } catch (error) {
    for (const { fail } of group) fail(error);
  }
}

function pathOf(group: readonly Question[]): string {
  const place = group[0]?.place ?? "";
  if (group.length === 1) return `${place}${group[0]?.rest}`;
  return `${place}together?${new URLSearchParams(group.map(({ rest }) => ["ask", rest]))}`;
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
  if (start !== whole.byteLength) throw new TypeError("the answers break off");
  return answers;
}
