import { type Action, type ActionGroup, inOrder, useActions } from "@/lib/actions";
import { setSingleKeys, usePreferences } from "@/lib/preferences";
import { Button, Dialog, KeyCap, Switch } from "@/ui";

const GROUPS: readonly ActionGroup[] = ["Run", "Breakpoints", "Panels", "View", "Go to", "Help"];

/** ?: every key and what it does. */
export default function ShortcutsDialog({ onClose }: { onClose: () => void }) {
  const actions = inOrder(useActions((registry) => registry.actions)).filter((action) => action.keys);
  const singleKeys = usePreferences((settings) => settings.singleKeys);
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose} className="w-[560px] p-4">
      <p className="mt-1 text-t2">
        Single-key shortcuts work while focus is on the page. In a field, chart, table or menu, the arrows and
        Space control that element.
      </p>
      <div className="mt-3 grid grid-cols-2 gap-x-8 gap-y-3">
        {GROUPS.map((group) => (
          <KeyGroup key={group} group={group} actions={actions.filter((action) => action.group === group)} />
        ))}
      </div>
      <div className="mt-4 flex items-center gap-2">
        <Switch label="Single-key shortcuts" on={singleKeys} onChange={setSingleKeys} />
        <span>Single-key shortcuts</span>
        <span className="text-t3">{singleKeys ? "on" : "off; Ctrl K still opens every command"}</span>
        <Button data-autofocus className="ml-auto" onClick={onClose}>
          Close
        </Button>
      </div>
    </Dialog>
  );
}

function KeyGroup({ group, actions }: { group: ActionGroup; actions: Action[] }) {
  if (actions.length === 0) return null;
  return (
    <section>
      <h3 className="text-label text-t3">{group}</h3>
      <dl className="mt-1">
        {actions.map((action) => (
          <div key={action.id} className="flex h-6 items-center justify-between gap-2">
            <dt>{action.title}</dt>
            <dd>
              <KeyCap keys={action.keys ?? ""} />
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
