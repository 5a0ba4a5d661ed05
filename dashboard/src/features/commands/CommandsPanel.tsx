/** The command log, newest first, each line in words. */

import type { CommandOut } from "@/api/types";
import { downloadText } from "@/lib/download";
import { formatCount, formatTime } from "@/lib/format";
import { hasEnded } from "@/live/commandAvailability";
import { useCommands, useRunState } from "@/live/hooks";
import { Icon, IconButton, Menu, Panel, Tooltip } from "@/ui";
import { csvOf, jsonOf } from "@/ui/export/csv";
import { useFixedRows } from "@/ui/table/useFixedRows";
import { commandText, type Outcome, outcome, whoText } from "./wording";

interface CommandsViewProps {
  /** Oldest first, as the server ordered them. */
  commands: readonly CommandOut[];
  /** The run takes no more of them. */
  ended: boolean;
  stale: string | null;
}

/** The command log, fed by the stream. */
export function CommandsPanel({ stale }: { stale: string | null }) {
  const ended = useRunState(hasEnded) ?? false;
  return <CommandsView commands={useCommands()} ended={ended} stale={stale} />;
}

function CommandsView({ commands, ended, stale }: CommandsViewProps) {
  const { ref, rows, totalHeight } = useFixedRows({ count: commands.length, overscan: 6 });
  const empty = commands.length === 0;
  return (
    <Panel
      title="Commands"
      fact={empty ? null : formatCount(commands.length)}
      stale={stale}
      tools={<LogMenu commands={commands} />}
      className="h-full"
      bodyClassName="-mt-1 pb-1"
      state={
        empty
          ? {
              kind: "unavailable",
              text: ended
                ? "No commands were sent."
                : "No commands yet. Pauses, steps and breakpoint hits appear here.",
            }
          : undefined
      }
    >
      <div
        ref={ref}
        role="log"
        aria-label="Command log"
        aria-live="off"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
        data-keys="own"
        className="max-h-screen min-h-0 flex-1 overflow-y-auto"
      >
        <div className="relative" style={{ height: totalHeight }}>
          {rows.map(({ index, start }) => {
            const command = commands[commands.length - 1 - index];
            if (!command) return null;
            return (
              <div
                key={command.id}
                className="absolute inset-x-0 top-0"
                style={{ transform: `translateY(${start}px)` }}
              >
                <CommandRow command={command} />
              </div>
            );
          })}
        </div>
      </div>
    </Panel>
  );
}

function CommandRow({ command }: { command: CommandOut }) {
  const ended = outcome(command);
  const text = commandText(command);
  return (
    <div className="flex h-6 items-center gap-3 px-3 hover:bg-s2">
      <span className="text-t3">{formatTime(command.submitted_at)}</span>
      <span className="flex min-w-16 flex-1 items-baseline gap-2 overflow-hidden">
        <span className="truncate font-mono" title={text}>
          {text}
        </span>
        <span className="shrink-99 truncate text-t3">{whoText(command)}</span>
      </span>
      <Tooltip text={command.reason} side="top">
        <span
          className={`max-w-[55%] shrink truncate @max-[360px]:max-w-[40%] ${ended.tone === "bad" ? "font-medium text-bad" : "text-t3"}`}
        >
          {ended.text}
        </span>
      </Tooltip>
      <OutcomeMark ended={ended} status={command.status} />
    </div>
  );
}

function OutcomeMark({ ended, status }: { ended: Outcome; status: CommandOut["status"] }) {
  const look = { ok: "text-ok", bad: "text-bad", busy: "text-t3 animate-turn" }[ended.tone];
  const icon = { ok: "check", bad: "close", busy: "spinner" } as const;
  return (
    <>
      <Icon name={icon[ended.tone]} size={14} className={look} />
      <span className="sr-only">{status}</span>
    </>
  );
}

function LogMenu({ commands }: { commands: readonly CommandOut[] }) {
  const columns = [
    { name: "seq", cells: commands.map(({ seq }) => seq) },
    { name: "time", cells: commands.map(({ submitted_at }) => submitted_at) },
    { name: "command", cells: commands.map(commandText) },
    { name: "who", cells: commands.map(({ who }) => who) },
    { name: "status", cells: commands.map(({ status }) => status) },
    { name: "reason", cells: commands.map(({ reason }) => reason ?? null) },
    { name: "duration_s", cells: commands.map(({ duration_s }) => duration_s ?? null) },
  ];
  const disabledReason = commands.length ? null : "nothing yet";
  return (
    <Menu
      trigger={<IconButton icon="more" label="More actions for commands" />}
      items={[
        {
          label: "Export CSV",
          disabledReason,
          onSelect: () => downloadText("commands.csv", csvOf(columns), "text/csv"),
        },
        {
          label: "Export JSON",
          disabledReason,
          onSelect: () => downloadText("commands.json", jsonOf(commands), "application/json"),
        },
      ]}
    />
  );
}
