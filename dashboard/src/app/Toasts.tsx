import { useEffect } from "react";
import { useAction } from "@/lib/actions";
import { DONE_STAYS_MS, type Toast, useToasts } from "@/lib/toasts";
import { Button, Icon, IconButton } from "@/ui";

/** Messages at the bottom right, three at most. Screen readers hear them through the announcer. */
export function Toasts() {
  const toasts = useToasts((state) => state.toasts);
  const undo = toasts.findLast((toast) => toast.action?.label === "Undo");
  useAction({
    id: "undo",
    title: "Undo",
    group: "View",
    keys: "Ctrl Z",
    disabledReason: undo ? null : "Nothing to undo",
    run: () => {
      if (undo === undefined) return;
      useToasts.getState().close(undo.id);
      undo.action?.run();
    },
  });
  return (
    <section
      aria-label="Messages"
      className="fixed right-2 bottom-2 z-40 flex w-[524px] max-w-[calc(100vw-16px)] flex-col gap-2"
    >
      {toasts.map((toast) => (
        <ToastRow key={toast.id} toast={toast} />
      ))}
    </section>
  );
}

function ToastRow({ toast }: { toast: Toast }) {
  const close = useToasts((state) => state.close);
  const { id, kind, title, text, action } = toast;
  useEffect(() => {
    if (kind !== "done") return;
    const timer = setTimeout(() => close(id), DONE_STAYS_MS);
    return () => clearTimeout(timer);
  }, [id, kind, close]);
  return (
    <div className="flex min-h-9 items-center gap-2 rounded-layer bg-surface px-3 py-1.5 shadow-layer">
      <Icon
        name={kind === "done" ? "done" : "refused"}
        className={kind === "done" ? "text-ok-mark" : "text-bad-mark"}
      />
      <p className="min-w-0 flex-1">
        <span className={kind === "done" ? "" : "font-semibold"}>{title}</span> {text}
      </p>
      {action && (
        <Button
          small
          keys={action.keys}
          onClick={() => {
            close(id);
            action.run();
          }}
        >
          {action.label}
        </Button>
      )}
      <IconButton icon="close" label="Close message" onClick={() => close(id)} />
    </div>
  );
}
