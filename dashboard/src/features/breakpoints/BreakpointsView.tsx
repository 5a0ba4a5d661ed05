/** The list of breakpoints: switch, id, condition in words, hits; the one that stopped the run is tinted. */
import { lazy, Suspense } from "react";
import type { BreakpointOut } from "@/api/types";
import { downloadText } from "@/lib/download";
import { plural } from "@/lib/format";
import { Button, Icon, IconButton, Panel, rowClass, Switch, Tooltip } from "@/ui";
import { csvOf } from "@/ui/export/csv";

const RuleHelp = lazy(() => import("./RuleHelp"));

interface BreakpointsViewProps {
  breakpoints: readonly BreakpointOut[];
  /** Id of the one that stopped the run. */
  stoppedBy: number | null;
  /** Why none can be set or changed now. */
  disabledReason: string | null;
  onAdd: () => void;
  onSwitch: (id: number, on: boolean) => void;
  onRemove: (breakpoint: BreakpointOut) => void;
  stale: string | null;
}

export function BreakpointsView(props: BreakpointsViewProps) {
  const { breakpoints, stoppedBy, disabledReason, onAdd, stale } = props;
  const empty = breakpoints.length === 0;
  const tools = (
    <Button
      small
      look="ghost"
      icon="plus"
      className={`-mr-2 ${disabledReason === null ? "text-t2!" : ""}`}
      tooltip="Add a breakpoint (from the selected sample or point)"
      disabledReason={disabledReason}
      onClick={onAdd}
    >
      Add
    </Button>
  );
  return (
    <Panel
      title="Breakpoints"
      stale={stale}
      tools={tools}
      className="h-full"
      bodyClassName="-mt-1 pb-1"
      state={
        empty
          ? {
              kind: "unavailable",
              text:
                disabledReason === null
                  ? "No breakpoints yet. Add one to pause the run on a condition."
                  : "No breakpoints are set.",
            }
          : undefined
      }
    >
      <ul aria-label="Breakpoints" className="min-h-0 flex-1 overflow-y-auto">
        {breakpoints.map((breakpoint) => (
          <BreakpointRow
            key={breakpoint.id}
            {...props}
            breakpoint={breakpoint}
            tinted={breakpoint.id === stoppedBy}
          />
        ))}
      </ul>
    </Panel>
  );
}

interface RowProps extends BreakpointsViewProps {
  breakpoint: BreakpointOut;
  tinted: boolean;
}

function BreakpointRow({ breakpoint, tinted, disabledReason, onSwitch, onRemove }: RowProps) {
  const { id, words, enabled, hits, costs_sync, missing, action, condition } = breakpoint;
  const kind = condition.kind === "rule" ? condition.rule : null;
  const quiet = tinted ? "" : enabled ? "" : "text-t3";
  return (
    <li
      aria-current={tinted || undefined}
      // A condition in words may need several lines; it is never cut while there is room below.
      className={`group relative flex items-center gap-2 px-3 py-1 ${rowClass({ tinted })} h-auto! min-h-6 ${tinted ? "font-medium" : ""}`}
    >
      <Switch
        label={`Breakpoint ${id}: ${words}`}
        on={enabled}
        onChange={(on) => onSwitch(id, on)}
        disabledReason={disabledReason}
      />
      <span className={`font-normal ${tinted ? "" : "text-t3"}`}>{id}</span>
      <Tooltip text={costs_sync ? `${words}. Costs one GPU sync per step.` : null} side="top">
        <span
          title={costs_sync ? undefined : words}
          className={`line-clamp-3 min-w-0 flex-1 wrap-anywhere ${quiet}`}
        >
          {words}
        </span>
      </Tooltip>
      {kind !== null && (
        <Suspense fallback={null}>
          <RuleHelp rule={kind} />
        </Suspense>
      )}
      {missing.length > 0 && hits === 0 ? (
        <Tooltip text={`No step so far has logged ${missing.join(", ")}. Check the spelling.`} side="top">
          <span className="flex max-w-[60%] shrink-0 items-center gap-1 text-warn group-focus-within:pr-5 group-hover:pr-5">
            <Icon name="warning" size={14} className="shrink-0 text-warn-mark" />
            <span className="truncate">{missingText(missing)}</span>
          </span>
        </Tooltip>
      ) : (
        <span
          className={`whitespace-nowrap group-focus-within:pr-5 group-hover:pr-5 ${tinted ? "" : "text-t3"}`}
        >
          {plural(hits, action === "mark" ? "mark" : "hit")}
        </span>
      )}
      <span className="absolute right-1 opacity-0 group-hover:opacity-100 focus-within:opacity-100">
        <IconButton
          icon="close"
          label={`Remove breakpoint ${id}`}
          disabledReason={disabledReason}
          onClick={() => onRemove(breakpoint)}
        />
      </span>
    </li>
  );
}

/** Why it cannot hit: "lss is not logged", "2 names are not logged". */
export function missingText(missing: readonly string[]): string {
  return missing.length === 1 ? `${missing[0]} is not logged` : `${missing.length} names are not logged`;
}

/** All breakpoints as a file; offered by the panel's action in the palette. */
export function exportBreakpoints(breakpoints: readonly BreakpointOut[]): void {
  const columns = [
    { name: "id", cells: breakpoints.map(({ id }) => id) },
    { name: "condition", cells: breakpoints.map(({ words }) => words) },
    { name: "action", cells: breakpoints.map(({ action }) => action) },
    { name: "enabled", cells: breakpoints.map(({ enabled }) => enabled) },
    { name: "hits", cells: breakpoints.map(({ hits }) => hits) },
    { name: "hit_steps", cells: breakpoints.map(({ hit_steps }) => hit_steps.join(" ")) },
  ];
  downloadText("breakpoints.csv", csvOf(columns), "text/csv");
}
