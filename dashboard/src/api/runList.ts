/** The list of all runs: read once, then updated by its stream, or polled if there is none. */
import { create } from "zustand";
import { api, RUNS_AT_A_TIME, runsPath } from "./client";
import { type Link, ListStream } from "./sharedStream";
import type { ListMessage, RunListing, RunRow, RunsMessage } from "./types";

export interface RunTable {
  /** By id, newest first. */
  rows: ReadonlyMap<string, RunRow>;
  /** Runs that the server knows; more than `rows` holds only beyond `MAX_ROWS`. */
  total: number;
  states: Readonly<Record<string, number>>;
  columns: RunListing["columns"];
  canStart: boolean;
  loaded: boolean;
  /** Why the last question was not answered; null once one was. */
  error: string | null;
  /** Changes come by themselves. */
  streaming: boolean;
}

export const MAX_ROWS = 10_000;
const ASK_AGAIN_MS = 5_000;

const NOTHING: RunTable = {
  rows: new Map(),
  total: 0,
  states: {},
  columns: { config: [], summary: [] },
  canStart: false,
  loaded: false,
  error: null,
  streaming: false,
};

export const useRunTable = create<RunTable>()(() => NOTHING);

/** The rows after a message: changed ones in their place, new ones in front, removed ones gone. */
export function withChanges(
  rows: ReadonlyMap<string, RunRow>,
  { runs, removed }: Pick<RunsMessage, "runs" | "removed">,
): ReadonlyMap<string, RunRow> {
  const added = runs.filter((run) => !rows.has(run.id));
  const next = new Map([...added.map((run) => [run.id, run] as const), ...rows]);
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

type FetchPage = (offset: number, limit: number, signal: AbortSignal) => Promise<RunListing>;

const fetchPage: FetchPage = (offset, limit, signal) => api.get<RunListing>(runsPath(offset, limit), signal);

/** All pages of the list, one after the other. */
async function readAll(fetchRuns: FetchPage, signal: AbortSignal): Promise<RunListing> {
  const first = await fetchRuns(0, RUNS_AT_A_TIME, signal);
  const runs = [...first.runs];
  while (runs.length < Math.min(first.total, MAX_ROWS)) {
    const { runs: more } = await fetchRuns(runs.length, RUNS_AT_A_TIME, signal);
    if (more.length === 0) break;
    runs.push(...more);
  }
  return { ...first, runs };
}

/** Keeps the table up to date until `close`. */
export class RunListFeed {
  private readonly closing = new AbortController();
  private readonly stream: ListStream<ListMessage>;
  private readonly timer: ReturnType<typeof setInterval>;
  /** What the stream said while the list was on its way. */
  private meanwhile: RunsMessage[] | null = null;
  private streaming = false;
  private usable = true;

  constructor(private readonly fetchRuns: FetchPage = fetchPage) {
    this.stream = new ListStream<ListMessage>({
      onLink: (link) => this.onLink(link),
      onMessage: (message) => this.onMessage(message),
    });
    this.timer = setInterval(() => {
      if (!this.streaming) void this.read();
    }, ASK_AGAIN_MS);
    void this.read();
  }

  close(): void {
    this.closing.abort();
    clearInterval(this.timer);
    this.stream.close();
  }

  private onLink(link: Link): void {
    const streaming = link === "open" && this.usable;
    // What happened while the link was down is in the list only.
    if (streaming && !this.streaming) void this.read();
    this.setStreaming(streaming);
  }

  private onMessage(message: ListMessage): void {
    if (message.type === "hello") this.giveUp();
    if (message.type !== "runs") return;
    this.meanwhile?.push(message);
    this.apply(message);
  }

  /** A server of one run streams that run only, so its list is polled. */
  private giveUp(): void {
    this.usable = false;
    this.stream.close();
    this.setStreaming(false);
  }

  private setStreaming(streaming: boolean): void {
    this.streaming = streaming;
    useRunTable.setState({ streaming });
  }

  private apply({ runs, removed, states, total }: RunsMessage): void {
    useRunTable.setState(({ rows }) => ({ rows: withChanges(rows, { runs, removed }), states, total }));
  }

  private async read(): Promise<void> {
    if (this.meanwhile !== null) return;
    this.meanwhile = [];
    try {
      const listing = await readAll(this.fetchRuns, this.closing.signal);
      if (this.closing.signal.aborted) return;
      useRunTable.setState({
        rows: new Map(listing.runs.map((run) => [run.id, run])),
        total: listing.total,
        states: listing.states,
        columns: listing.columns,
        canStart: listing.can_start,
        loaded: true,
        error: null,
      });
      for (const message of this.meanwhile) this.apply(message);
    } catch (error) {
      if (this.closing.signal.aborted) return;
      useRunTable.setState({ error: error instanceof Error ? error.message : String(error) });
    } finally {
      this.meanwhile = null;
    }
  }
}
