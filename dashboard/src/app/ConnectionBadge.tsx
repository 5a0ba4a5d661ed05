import type { ReactNode } from "react";
import { formatCount, formatTime, NONE } from "@/lib/format";
import { TOKEN_NOT_VALID } from "@/lib/messages";
import type { ConnectionStatus } from "@/live/connection";
import { useConnection, useRunDetail, useRunId, useRuns } from "@/live/hooks";
import type { Connection } from "@/live/store";
import { Icon, Popover } from "@/ui";

const dot = (look: string) => <span className={`size-2 rounded-full ${look}`} />;

const LOOKS: Record<ConnectionStatus, { glyph: ReactNode; tone: string; word: string }> = {
  connecting: { glyph: dot("border-2 border-line3"), tone: "text-t2", word: "Connecting" },
  live: { glyph: dot("bg-ok-mark"), tone: "text-t2", word: "Live" },
  "view only": { glyph: <Icon name="eye" size={14} />, tone: "text-t2", word: "View-only" },
  stale: { glyph: <Icon name="clock" size={14} />, tone: "text-warn", word: "old" },
  reconnecting: { glyph: dot("border-2 border-warn-mark"), tone: "text-warn", word: "Reconnecting" },
  "not responding": { glyph: <Icon name="unplugged" size={14} />, tone: "text-bad", word: "Not responding" },
  closed: { glyph: dot("border-2 border-line3"), tone: "text-t2", word: "Closed" },
  denied: { glyph: <Icon name="warning" size={14} />, tone: "text-bad", word: "No access" },
};

/** Glyph and word of a connection, alone. */
export function ConnectionMark({ status, ageS }: Pick<Connection, "status" | "ageS">) {
  const { glyph, tone, word } = LOOKS[status];
  return (
    <span className={`flex items-center gap-2 whitespace-nowrap ${tone}`}>
      {glyph}
      {status === "stale" ? `${ageS} s old` : word}
    </span>
  );
}

const EXPLAINED: Partial<Record<ConnectionStatus, (ageS: number) => string>> = {
  "view only": () => "This link is view-only.",
  stale: (ageS) => `No update for ${ageS} s. Numbers may be old. Commands are sent and wait.`,
  reconnecting: () => "Connection lost. Training continues. Reconnecting.",
  "not responding": (ageS) =>
    `No answer for ${ageS} s. Training may still be running. Reconnecting. To check the process: midstep ctl state`,
  closed: () => "The run has ended and its server stopped. The record is in the run directory.",
  denied: () => TOKEN_NOT_VALID,
};

/** How fresh the page is; opens what is known of the connection. */
export function ConnectionBadge() {
  const connection = useConnection();
  const runId = useRunId();
  const { data } = useRuns();
  // Before the first run there is nothing to be connected to.
  if (runId === null && data?.total === 0) return null;
  return (
    <Popover label="Connection" button={<ConnectionMark {...connection} />} className="-mx-1.5 h-7 px-1.5">
      <div className="w-80">
        <Details connection={connection} />
      </div>
    </Popover>
  );
}

function Details({ connection }: { connection: Connection }) {
  const { data: run } = useRunDetail(useRunId());
  const explained = connection.why ?? EXPLAINED[connection.status]?.(connection.ageS);
  const last = connection.lastMessageAt === 0 ? NONE : formatTime(connection.lastMessageAt / 1000);
  const rows: [string, string][] = [
    ["Last message", last],
    ["Messages dropped", formatCount(connection.dropped)],
    ["Server", window.location.host],
    ["Version", connection.version ?? NONE],
    ["Run directory", run?.directory ?? NONE],
  ];
  return (
    <>
      {explained && <p className="mb-2 text-t2">{explained}</p>}
      <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1">
        {rows.map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="text-t3">{name}</dt>
            <dd className="text-right break-all">{value}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}
