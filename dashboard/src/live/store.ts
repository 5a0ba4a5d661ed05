/** What the page knows of the run it shows. Written by the stream and by answers to commands, read by every panel. */
import { create } from "zustand";
import type { Link } from "@/api/sharedStream";
import type {
  BreakpointOut,
  CommandOut,
  EventMessage,
  HelloMessage,
  StateOut,
  StreamMessage,
} from "@/api/types";
import { hasEnded } from "./commandAvailability";
import { type ConnectionStatus, connectionStatus } from "./connection";
import { SeriesStore } from "./series";

export interface Connection {
  status: ConnectionStatus;
  link: Link;
  /** Whole seconds since the last message. */
  ageS: number;
  lastMessageAt: number;
  /** Messages this page missed because it was slow. */
  dropped: number;
  canControl: boolean;
  version: string | null;
  /** What the server said when it refused the stream. */
  why: string | null;
  /** Whether the link held since the last hello. If it did, a state with a lower number is an old one. */
  unbroken: boolean;
}

const MAX_COMMANDS = 500;

const noConnection: Connection = {
  status: "connecting",
  link: "connecting",
  ageS: 0,
  lastMessageAt: 0,
  dropped: 0,
  canControl: true,
  version: null,
  why: null,
  unbroken: false,
};

interface RunData {
  runId: string | null;
  state: StateOut | null;
  connection: Connection;
  /** Oldest first, as the server ordered them. */
  commands: CommandOut[];
  breakpoints: BreakpointOut[];
  /** Grows when the series did. */
  seriesVersion: number;
  /** 0 before the first hello; grows when the server had to start over and what was fetched must be fetched again. */
  restarts: number;
  /** Whether the run reports what it captures: it is live and can be subscribed to. */
  reportsCaptures: boolean;
}

interface RunActions {
  follow: (runId: string | null) => void;
  applyMessage: (message: StreamMessage, now: number) => void;
  setLink: (link: Link, now: number, why?: string | null) => void;
  tick: (now: number) => void;
  setState: (state: StateOut) => void;
  setCommands: (commands: CommandOut[]) => void;
  putCommand: (command: CommandOut) => void;
  setBreakpoints: (breakpoints: BreakpointOut[]) => void;
}

/** Columns are too large for immutable state; panels read them when `seriesVersion` changes. */
export const series = new SeriesStore();

const afterSeries = (live: RunData): Partial<RunData> => ({ seriesVersion: live.seriesVersion + 1 });

/** Tells the panels that a series was filled. */
export function seriesChanged(): void {
  useRun.setState(afterSeries);
}

function refreshed(connection: Connection, now: number, state: StateOut | null): Connection {
  const ageS =
    connection.lastMessageAt === 0 ? 0 : Math.max(0, Math.floor((now - connection.lastMessageAt) / 1000));
  const status = connectionStatus(connection.link, ageS, connection.canControl, hasEnded(state));
  if (status === connection.status && ageS === connection.ageS) return connection;
  return { ...connection, ageS, status };
}

/** A response may arrive after a newer message of the stream, and a message after a newer response. */
function isOlder(received: StateOut, known: StateOut | null): boolean {
  return known !== null && received.number < known.number;
}

/** Replaces a command by its newer record, or appends it; order is the server's sequence. */
export function withCommand(commands: CommandOut[], command: CommandOut): CommandOut[] {
  const others = commands.filter((one) => one.id !== command.id);
  const index = others.findLastIndex((one) => one.seq < command.seq) + 1;
  return others.toSpliced(index, 0, command).slice(-MAX_COMMANDS);
}

function afterState(live: RunData, state: StateOut): Partial<RunData> {
  return isOlder(state, live.state) ? {} : { state };
}

/**
 * Charts set the steps aside that a rewind has undone, before the next step draws new ones.
 *
 * The record says where the run went. A state may be one of the steps that were repeated on the way.
 */
function afterEvent(live: RunData, { kind, timeline, step }: EventMessage["record"]): Partial<RunData> {
  if (kind !== "rewind" || typeof timeline !== "number" || typeof step !== "number") return {};
  return series.wentBack(timeline, step) ? afterSeries(live) : {};
}

function afterHello(live: RunData, hello: HelloMessage): Partial<RunData> {
  if (!hello.resumed) series.seq = hello.seq;
  // A tab that takes the stream over may have had the answer to its own command meanwhile.
  const isLate = live.connection.unbroken && isOlder(hello.state, live.state);
  return {
    ...(isLate ? {} : { state: hello.state }),
    breakpoints: hello.breakpoints,
    restarts: hello.resumed && live.restarts > 0 ? live.restarts : live.restarts + 1,
    reportsCaptures: hello.captures === true,
  };
}

function afterMessage(live: RunData, message: StreamMessage): Partial<RunData> {
  switch (message.type) {
    case "hello":
      return afterHello(live, message);
    case "state":
      return afterState(live, message.state);
    case "scalars":
      return series.append(message) ? afterSeries(live) : {};
    case "event":
      return afterEvent(live, message.record);
    case "command":
      return { commands: withCommand(live.commands, message.command) };
    case "breakpoints":
      return { breakpoints: message.breakpoints };
    default:
      return {};
  }
}

function linkAfter(live: RunData, message: StreamMessage, now: number): Connection {
  const { connection, state } = live;
  const heard: Connection = { ...connection, link: "open", lastMessageAt: now };
  if (message.type === "hello") {
    heard.unbroken = true;
    heard.canControl = message.can_control;
    heard.version = message.version;
  }
  if (message.type === "state") heard.dropped = message.dropped;
  return refreshed(heard, now, state);
}

export const useRun = create<RunData & RunActions>()((set) => ({
  runId: null,
  state: null,
  connection: noConnection,
  commands: [],
  breakpoints: [],
  seriesVersion: 0,
  restarts: 0,
  reportsCaptures: false,

  follow: (runId) => {
    series.clear();
    set({
      runId,
      state: null,
      connection: noConnection,
      commands: [],
      breakpoints: [],
      seriesVersion: 0,
      restarts: 0,
      reportsCaptures: false,
    });
  },
  applyMessage: (message, now) =>
    set((live) => ({ ...afterMessage(live, message), connection: linkAfter(live, message, now) })),
  setLink: (link, now, why = null) =>
    set((live) => {
      const unbroken = live.connection.unbroken && link === "open";
      return { connection: refreshed({ ...live.connection, link, why, unbroken }, now, live.state) };
    }),
  tick: (now) =>
    set((live) => {
      const connection = refreshed(live.connection, now, live.state);
      return connection === live.connection ? live : { connection };
    }),
  setState: (state) => set((live) => afterState(live, state)),
  setCommands: (commands) => set((live) => ({ commands: live.commands.reduce(withCommand, commands) })),
  putCommand: (command) => set((live) => ({ commands: withCommand(live.commands, command) })),
  setBreakpoints: (breakpoints) => set({ breakpoints }),
}));
