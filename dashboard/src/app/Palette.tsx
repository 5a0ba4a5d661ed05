import { Command } from "cmdk";
import { type Action, type ActionGroup, inOrder, useActions } from "@/lib/actions";
import { useRuns } from "@/live/hooks";
import { Dialog, Icon, KeyCap, StateChip } from "@/ui";
import { useGo } from "./navigation";

const GROUPS: readonly ActionGroup[] = ["Run", "Breakpoints", "Panels", "View", "Go to", "Help"];
const ROW =
  "flex h-8 items-center gap-2 rounded-control px-2 data-[selected=true]:bg-accent-soft data-[disabled=true]:text-dis";
const HEADING =
  "[&_[cmdk-group-heading]]:px-2 [&_[cmdk-group-heading]]:py-1 [&_[cmdk-group-heading]]:text-label [&_[cmdk-group-heading]]:text-t3";

/** Ctrl K: search and every command, with the key that does the same. */
export default function Palette({ onClose }: { onClose: () => void }) {
  const actions = inOrder(useActions((registry) => registry.actions)).filter(
    (action) => action.id !== "palette",
  );
  const choose = (action: Action) => {
    onClose();
    // The dialog gives focus back first, then the action may move it.
    setTimeout(action.run);
  };
  return (
    <Dialog title="Search or command" titleHidden onClose={onClose} className="w-[560px]">
      <Command label="Search or command" loop className="flex flex-col">
        <div className="flex items-center gap-2 border-b border-line px-4">
          <Icon name="search" className="text-t3" />
          <Command.Input
            data-autofocus
            placeholder="Search or command"
            className="h-11 flex-1 bg-transparent text-bar outline-none placeholder:text-t3"
          />
          <KeyCap keys="Esc" />
        </div>
        <Command.List className="max-h-90 overflow-y-auto p-2">
          <Command.Empty className="px-2 py-3 text-t2">No command or run matches.</Command.Empty>
          {GROUPS.map((group) => (
            <ActionRows
              key={group}
              group={group}
              actions={actions.filter((one) => one.group === group)}
              choose={choose}
            />
          ))}
          <RunRows onClose={onClose} />
        </Command.List>
      </Command>
    </Dialog>
  );
}

interface ActionRowsProps {
  group: ActionGroup;
  actions: Action[];
  choose: (action: Action) => void;
}

function ActionRows({ group, actions, choose }: ActionRowsProps) {
  if (actions.length === 0) return null;
  return (
    <Command.Group heading={group} className={HEADING}>
      {actions.map((action) => (
        <Command.Item
          key={action.id}
          value={action.id}
          keywords={[action.title, action.words ?? ""]}
          disabled={action.disabledReason != null}
          onSelect={() => choose(action)}
          className={ROW}
        >
          <span className="flex-1">{action.title}</span>
          {action.disabledReason != null && <span className="text-t3">{action.disabledReason}</span>}
          {action.keys && <KeyCap keys={action.keys} />}
        </Command.Item>
      ))}
    </Command.Group>
  );
}

function RunRows({ onClose }: { onClose: () => void }) {
  const { data } = useRuns();
  const go = useGo();
  const runs = data?.runs ?? [];
  if (runs.length === 0) return null;
  return (
    <Command.Group heading="Runs" className={HEADING}>
      {runs.map((run) => (
        <Command.Item
          key={run.id}
          value={run.id}
          keywords={[run.name]}
          onSelect={() => {
            onClose();
            go("/live", { run: run.id });
          }}
          className={ROW}
        >
          <span className="flex-1 truncate font-mono">{run.name}</span>
          <StateChip state={run.state} />
        </Command.Item>
      ))}
    </Command.Group>
  );
}
