/** Typed requests to the server. The token comes in the address's fragment and never leaves this tab. */
import { batchRequests, type Fetch } from "./batchedRequests";
import type { AnswerOf, JsonRoute, WriteRoute, WrittenBy } from "./routes";
import type { Problem } from "./types";

const TOKEN_KEY = "midstep.token";

/** A request that was refused or never answered, with what happened and what to do. */
export class ApiError extends Error {
  readonly status: number;
  readonly problem: Problem;

  constructor(status: number, problem: Problem) {
    super(problem.message);
    this.name = "ApiError";
    this.status = status;
    this.problem = problem;
  }
}

interface TokenSource {
  location: Pick<Location, "hash" | "pathname" | "search">;
  history: Pick<History, "replaceState" | "state">;
  storage: Pick<Storage, "getItem" | "setItem">;
}

/** Reads `#token=…` into the tab's storage and takes it out of the address bar, so that it is not copied about. */
export function takeToken({ location, history, storage }: TokenSource): string | null {
  const fragment = new URLSearchParams(location.hash.replace(/^#/, ""));
  const given = fragment.get("token");
  if (given === null) return storage.getItem(TOKEN_KEY);
  storage.setItem(TOKEN_KEY, given);
  fragment.delete("token");
  const rest = fragment.toString();
  history.replaceState(history.state, "", location.pathname + location.search + (rest ? `#${rest}` : ""));
  return given;
}

let token: string | null = null;

/** Called once, before anything is fetched. */
export function initialiseToken(): void {
  token = takeToken({ location: window.location, history: window.history, storage: window.sessionStorage });
}

/** The bearer token of this tab, if it has one. */
export function currentToken(): string | null {
  return token;
}

/** Headers that every request carries. */
export function requestHeaders(): Record<string, string> {
  const headers: Record<string, string> = { "X-Midstep-Who": "page" };
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  return headers;
}

function isProblem(value: unknown): value is Problem {
  return typeof value === "object" && value !== null && "message" in value && "error" in value;
}

export async function problemOf(response: Response): Promise<Problem> {
  const body: unknown = await response.json().catch(() => null);
  if (isProblem(body)) return body;
  return {
    error: "http",
    message: `The server answered ${response.status} ${response.statusText}.`,
  } as Problem;
}

const request: Fetch = (path, signal) =>
  fetch(`/api/v1${path}`, { headers: requestHeaders(), signal, cache: "no-store" });

/** Responses that were requested early, by path. */
const prefetched = new Map<string, Promise<Response>>();

/** Sends a request before the code that needs it is loaded. The first `get` of the same path takes the response. */
export function prefetch(path: string): void {
  const pending = request(path);
  // A failure is reported to the `get` that takes it; without one it must not be an unhandled rejection.
  pending.catch(() => undefined);
  prefetched.set(path, pending);
}

const fetchOnce: Fetch = (path, signal) => {
  const pending = prefetched.get(path);
  prefetched.delete(path);
  return pending ?? request(path, signal);
};

/** The answer, if it is one; a refusal and a connection that was not made are errors. */
async function expectOk(pending: Promise<Response>, signal?: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await pending;
  } catch (error) {
    throw networkError(error, signal);
  }
  if (!response.ok) throw new ApiError(response.status, await problemOf(response));
  return response;
}

/** The error for a lost connection. An aborted request keeps its own error. */
function networkError(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted) return error;
  return new ApiError(0, {
    error: "unreachable",
    message: "No answer from the server. Check that the training process is running.",
  } as Problem);
}

/** The body of an answer; the connection may break off in the middle of it. */
async function readBody<T>(body: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  try {
    return await body;
  } catch (error) {
    throw networkError(error, signal);
  }
}

/** What can be read; paths are relative to `/api/v1`. */
export interface Reader {
  /** The answer of a route; `path` is that route with its values filled in. */
  get: <R extends JsonRoute>(path: string, signal?: AbortSignal) => Promise<AnswerOf<R>>;
  bytes: (path: string, signal?: AbortSignal) => Promise<ArrayBuffer>;
  blob: (path: string, signal?: AbortSignal) => Promise<Blob>;
}

function readerOf(fetcher: Fetch): Reader {
  const read = async <B>(
    path: string,
    signal: AbortSignal | undefined,
    body: (answer: Response) => Promise<B>,
  ) => readBody(body(await expectOk(fetcher(path, signal), signal)), signal);
  return {
    get: async <R extends JsonRoute>(path: string, signal?: AbortSignal) =>
      JSON.parse(await read(path, signal, (answer) => answer.text())) as AnswerOf<R>,
    bytes: (path, signal) => read(path, signal, (answer) => answer.arrayBuffer()),
    blob: (path, signal) => read(path, signal, (answer) => answer.blob()),
  };
}

/** An answer with its status, where 202 means that the command is still on its way. */
export interface StatusAndBody<T> {
  status: number;
  body: T;
}

async function write<T>(
  method: "POST" | "PUT" | "PATCH" | "DELETE",
  path: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<StatusAndBody<T>> {
  // The guard wants a JSON content type on every write, also on one that has nothing to say.
  const headers = { ...requestHeaders(), "Content-Type": "application/json" };
  const sent = fetch(`/api/v1${path}`, {
    method,
    headers,
    body: JSON.stringify(body ?? {}),
    signal,
    cache: "no-store",
  });
  const response = await expectOk(sent, signal);
  const text = await readBody(response.text(), signal);
  return { status: response.status, body: (text === "" ? null : JSON.parse(text)) as T };
}

/** The requests of the page; paths are relative to `/api/v1`. */
export const api = {
  ...readerOf(fetchOnce),
  post: <R extends WriteRoute<"post">>(path: string, body?: unknown, signal?: AbortSignal) =>
    write<WrittenBy<"post", R>>("POST", path, body, signal),
  put: <R extends WriteRoute<"put">>(path: string, body?: unknown) =>
    write<WrittenBy<"put", R>>("PUT", path, body),
  patch: <R extends WriteRoute<"patch">>(path: string, body?: unknown) =>
    write<WrittenBy<"patch", R>>("PATCH", path, body),
  delete: <R extends WriteRoute<"delete">>(path: string, body?: unknown) =>
    write<WrittenBy<"delete", R>>("DELETE", path, body),
};

/** For requests that repeat while a run trains: those made at nearly the same moment are sent as one. */
export const batchedApi: Reader = readerOf(batchRequests(fetchOnce));

/** The newest runs with everything the list shows of them. */
export const runsPath = (offset: number, limit: number): string =>
  `/runs?sort=-started_at&offset=${offset}&limit=${limit}`;

/** Runs in one request. */
export const RUNS_AT_A_TIME = 1_000;

/** The part of a query that asks for what was kept of a stop. */
export const ofStop = (stop: string | null): string =>
  stop === null ? "" : `&stop=${encodeURIComponent(stop)}`;

/** The path of something that belongs to a run. */
export function runPath(runId: string, rest = ""): string {
  return `/runs/${encodeURIComponent(runId)}${rest}`;
}
