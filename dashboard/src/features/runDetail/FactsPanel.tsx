/** What a run is, in a list of facts. */
import type { ReactNode } from "react";
import type { RunRow } from "@/api/types";
import {
  formatAge,
  formatBytes,
  formatCount,
  formatDuration,
  formatTime,
  formatValue,
  NONE,
} from "@/lib/format";
import { metricTitle } from "@/lib/metricNames";
import { Panel } from "@/ui";

interface FactsPanelProps {
  run: RunRow;
  /** Parts of the header record: device, commit, versions. */
  header: Readonly<Record<string, unknown>>;
  now: number;
}

export function FactsPanel({ run, header, now }: FactsPanelProps) {
  const lines = factsOf(run, header, now).filter(([, value]) => value !== null);
  return (
    <Panel title="Run" className="h-full" bodyClassName="overflow-auto px-3 pb-3">
      <dl className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-4 gap-y-1">
        {lines.map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="text-t3">{name}</dt>
            <dd className="text-right break-words">{value}</dd>
          </div>
        ))}
      </dl>
    </Panel>
  );
}

type Fact = [name: string, value: ReactNode];
const textOf = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);

function factsOf(run: RunRow, header: Readonly<Record<string, unknown>>, now: number): Fact[] {
  const end = run.ended_at ?? (run.live ? now : run.updated_at);
  const lasted = run.started_at === null || end === null ? null : Math.max(0, end - run.started_at);
  return [
    ["End reason", run.live ? null : run.why],
    ["Reachable", run.live && !run.reachable ? `No. ${run.why ?? "Commands do not arrive."}` : null],
    [
      "Directory",
      <span key="d" className="font-mono">
        {run.directory.split("/").at(-1)}
      </span>,
    ],
    [
      "Id",
      <span key="i" className="font-mono select-all">
        {run.id}
      </span>,
    ],
    ["Recipe", run.recipe],
    [
      "Steps",
      run.total_steps === null
        ? formatCount(run.step)
        : `${formatCount(run.step)} / ${formatCount(run.total_steps)}`,
    ],
    ["Epoch", run.epoch === null ? null : formatCount(run.epoch + 1)],
    [
      "Started",
      run.started_at === null ? null : `${dayText(run.started_at)}, ${formatAge(now - run.started_at)} ago`,
    ],
    ["Duration", lasted === null ? null : formatDuration(lasted)],
    ["Seed", run.seed === null ? null : String(run.seed)],
    ["Host", run.host],
    ["Device", textOf(header.device)],
    ["Commit", commitText(header.git)],
    ["Attempt", formatCount(run.attempt)],
    ["On disk", run.bytes === null ? NONE : formatBytes(run.bytes)],
  ];
}

function dayText(seconds: number): string {
  const day = new Date(seconds * 1000);
  const date = [day.getFullYear(), day.getMonth() + 1, day.getDate()].map((part) =>
    String(part).padStart(2, "0"),
  );
  return `${date.join("-")} ${formatTime(seconds)}`;
}

function commitText(git: unknown): string | null {
  if (typeof git !== "object" || git === null) return null;
  const { commit, dirty } = git as { commit?: unknown; dirty?: unknown };
  const short = textOf(commit)?.slice(0, 10);
  return short === undefined ? null : `${short}${dirty === true ? " (uncommitted changes)" : ""}`;
}

interface SummaryPanelProps {
  summary: RunRow["summary"];
}

/** The last value of everything that was measured. */
export function SummaryPanel({ summary }: SummaryPanelProps) {
  const names = Object.keys(summary);
  return (
    <Panel
      title="Last values"
      className="h-full"
      bodyClassName="overflow-auto"
      state={
        names.length === 0 ? { kind: "empty", title: "No metrics yet", text: "Take a step." } : undefined
      }
    >
      <table className="w-full">
        <tbody>
          {names.map((name) => {
            const value = summary[name] ?? null;
            const number = typeof value === "string" ? Number(value) : value;
            const odd = number !== null && !Number.isFinite(number);
            return (
              <tr key={name} className="h-6 hover:bg-s2">
                <th scope="row" className="px-3 text-left font-normal text-t2">
                  {metricTitle(name)}
                </th>
                <td
                  className={`px-3 text-right font-medium ${odd ? "text-bad" : ""}`}
                  title={number === null ? undefined : String(number)}
                >
                  {formatValue(number)}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Panel>
  );
}
