/** The list of all runs: read once, then updated by its stream, or polled if there is none. */
import { create } from "zustand";
import { ApiError, api, RUNS_AT_A_TIME, runsPath } from "./client";
import { type Link, ListStream } from "./sharedStream";
import type { ListMessage, RunListing, RunRow, RunsMessage } from "./types";

export interface RunTable {
  /** By id, newest first. */
  rows: ReadonlyMap<string, RunRow>;
  /** Runs that the server knows; `rows` may hold only the newest of them. */
  total: number;
  states: Readonly<Record<string, number>>;
  columns: RunListing["columns"];
  canStart: boolean;
  loaded: boolean;
  /** Whether the whole list was read, and not only the newest runs. */
  complete: boolean;
  /** Why the last question was not answered; null once one was. */
  error: string | null;
  /** Whether the token of this page was refused. */
  refused: boolean;
  /** Changes come by themselves. */
  streaming: boolean;
}

export const MAX_ROWS = 10_000;
const POLL_MS = 5_000;

const NOTHING: RunTable = {
  rows: new Map(),
  total: 0,
  states: {},
  columns: { config: [], summary: [] },
  canStart: false,
  loaded: false,
  complete: false,
  error: null,
  refused: false,
  streaming: false,
};

export const useRunTable = create<RunTable>()(() => NOTHING);

/** The rows after a message: changed ones in their place, new ones by their start, removed ones gone. */
export function withChanges(
  rows: ReadonlyMap<string, RunRow>,
  { runs, removed }: Pick<RunsMessage, "runs" | "removed">,
): ReadonlyMap<string, RunRow> {
  const added = runs.filter((run) => !rows.has(run.id));
  const next = new Map(rows);
  if (added.length > 0) {
    // Of a long list only the newest may be here, and an older run may have changed.
    const startOf = ({ started_at }: RunRow) => started_at ?? Number.POSITIVE_INFINITY;
    const byStart = [...added, ...rows.values()].sort((a, b) => startOf(b) - startOf(a) || 0);
    next.clear();
    for (const run of byStart) next.set(run.id, run);
  }
  for (const run of runs) next.set(run.id, run);
  for (const id of removed) next.delete(id);
  return next;
}

/** Puts a run into the list at once, as an answer of the server showed it. */
export function putRun(run: RunRow): void {
  useRunTable.setState(({ rows }) => ({ rows: withChanges(rows, { runs: [run], removed: [] }) }));
}

/** Takes a run out of the list at once, after the server said that it is gone. */
export function dropRun(id: string): void {
  useRunTable.setState(({ rows }) => ({ rows: withChanges(rows, { runs: [], removed: [id] }) }));
}

type ReadPage = (path: string, signal: AbortSignal) => Promise<RunListing>;

const readFromServer: ReadPage = (path, signal) => api.get<"/runs">(path, signal);

/** As many as a menu shows, without settings and results. */
export const NEWEST_RUNS = "/runs?sort=-started_at&columns=&limit=50";

/** All pages of the list, one after the other. */
async function readAll(read: ReadPage, signal: AbortSignal): Promise<RunListing> {
  const first = await read(runsPath(0, RUNS_AT_A_TIME), signal);
  const runs = [...first.runs];
  while (runs.length < Math.min(first.total, MAX_ROWS)) {
    const { runs: more } = await read(runsPath(runs.length, RUNS_AT_A_TIME), signal);
    if (more.length === 0) break;
    runs.push(...more);
  }
  return { ...first, runs };
}

/** Pages that show all runs, and not only the newest. */
let usersOfAll = 0;
let feed: RunListFeed | null = null;

/** All runs are needed until the result is called. */
export function wantAllRuns(): () => void {
  usersOfAll += 1;
  feed?.readAgain();
  return () => {
    usersOfAll -= 1;
  };
}

/** Reads the list again, where changes do not come by themselves. */
export function refreshRunList(): void {
  if (!useRunTable.getState().streaming) feed?.readAgain();
}

/** Keeps the list up to date until the result is called. */
export function followRunList(): () => void {
  const created = new RunListFeed();
  feed = created;
  return () => {
    created.close();
    if (feed === created) feed = null;
  };
}

/** Reads the list once, then follows its stream. A server of one run has none; there a page of all runs polls. */
export class RunListFeed {
  private readonly closing = new AbortController();
  private stream: ListStream<ListMessage> | null = null;
  private readonly timer: ReturnType<typeof setInterval>;
  /** Messages of the stream while the list is being read; null between reads. */
  private meanwhile: RunsMessage[] | null = null;
  private isOutdated = false;

  constructor(private readonly read: ReadPage = readFromServer) {
    this.timer = setInterval(() => {
      if (usersOfAll > 0 && !useRunTable.getState().streaming) this.readAgain();
    }, POLL_MS);
    this.readAgain();
  }

  close(): void {
    this.closing.abort();
    clearInterval(this.timer);
    this.stream?.close();
    useRunTable.setState({ streaming: false });
  }

  readAgain(): void {
    if (this.meanwhile === null) void this.readList();
    else this.isOutdated = true;
  }

  private openStream(): void {
    this.stream ??= new ListStream<ListMessage>({
      onLink: (link) => this.onLink(link),
      onMessage: (message) => this.onMessage(message),
    });
  }

  private onLink(link: Link): void {
    const streaming = link === "open";
    // What happened while the link was down is in the list only.
    if (streaming && !useRunTable.getState().streaming) this.readAgain();
    useRunTable.setState({ streaming });
  }

  private onMessage(message: ListMessage): void {
    if (message.type !== "runs") return;
    this.meanwhile?.push(message);
    this.apply(message);
  }

  private apply({ runs, removed, states, total }: RunsMessage): void {
    useRunTable.setState(({ rows }) => ({ rows: withChanges(rows, { runs, removed }), states, total }));
  }

  private async readList(): Promise<void> {
    // Rows of the newest runs have no settings: once the whole list was shown, it is read whole.
    const isComplete = usersOfAll > 0 || useRunTable.getState().complete;
    const { signal } = this.closing;
    this.meanwhile = [];
    this.isOutdated = false;
    try {
      const listing = isComplete ? await readAll(this.read, signal) : await this.read(NEWEST_RUNS, signal);
      if (signal.aborted) return;
      this.show(listing, isComplete);
      if (listing.has_stream) this.openStream();
    } catch (error) {
      if (signal.aborted) return;
      const refused = error instanceof ApiError && (error.status === 401 || error.status === 403);
      useRunTable.setState({ error: error instanceof Error ? error.message : String(error), refused });
    } finally {
      this.meanwhile = null;
    }
    // A page of all runs was opened while the newest were read, or the stream has just opened.
    if (this.isOutdated) void this.readList();
  }

  private show({ runs, total, states, columns, can_start }: RunListing, isComplete: boolean): void {
    useRunTable.setState({
      rows: new Map(runs.map((run) => [run.id, run])),
      total,
      states,
      columns,
      canStart: can_start,
      loaded: true,
      complete: isComplete,
      error: null,
      refused: false,
    });
    for (const message of this.meanwhile ?? []) this.apply(message);
  }
}
