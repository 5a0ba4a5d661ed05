/** New hyperparameters for the running training; the old ones are one Undo away. */
import { useState } from "react";
import { fromWire } from "@/api/types";
import { formatRate } from "@/lib/format";
import { showToast } from "@/lib/toasts";
import { runCommand } from "@/live/commands";
import { useCommandReason, useRunState } from "@/live/hooks";
import { Button, Dialog, Field } from "@/ui";
import { type HparamName, NAMES, payloadOf, undoOf, wordsOf } from "./hyperparameters";

export default function HyperparametersDialog({ onClose }: { onClose: () => void }) {
  const lr = useRunState((state) => fromWire(state.lr)) ?? null;
  const reason = useCommandReason("set_hparams");
  const [typed, setTyped] = useState<Partial<Record<HparamName, string>>>({});
  const [busy, setBusy] = useState(false);
  const read = payloadOf(typed);
  const apply = async () => {
    if (busy || reason !== null || "problem" in read) return;
    setBusy(true);
    const done = await runCommand("set_hparams", read.payload, "Set hyperparameters");
    setBusy(false);
    if (done === null) return;
    onClose();
    const undo = undoOf(done.result);
    showToast({
      kind: "done",
      title: `Set ${wordsOf(read.payload)}.`,
      action: undo
        ? {
            label: "Undo",
            keys: "Ctrl Z",
            run: () => void runCommand("set_hparams", undo, "Set hyperparameters"),
          }
        : undefined,
    });
  };
  const wrong = "problem" in read ? read : null;
  return (
    <Dialog title="Set hyperparameters" onClose={onClose}>
      <form
        className="mt-3 flex flex-col gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          void apply();
        }}
      >
        {NAMES.map(({ name, label }) => (
          <div key={name} className="grid grid-cols-[128px_1fr] items-center gap-2">
            <span aria-hidden="true" className="text-t3">
              {label}
            </span>
            <span className="flex items-center gap-2">
              <Field
                label={label}
                value={typed[name] ?? ""}
                placeholder={name === "lr" && lr !== null ? formatRate(lr) : "unchanged"}
                error={wrong?.name === name ? wrong.problem : null}
                onChange={(text) => setTyped({ ...typed, [name]: text })}
                className="w-28"
                {...(name === "lr" && { "data-autofocus": "" })}
              />
            </span>
          </div>
        ))}
        <p className="text-t3">
          Used from the next step on, in every parameter group, and recorded. A scheduler is scaled by the
          same factor.
        </p>
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button
            type="submit"
            look="filled"
            busy={busy ? "Setting…" : null}
            disabledReason={reason ?? (wrong?.name === null ? wrong.problem : null)}
          >
            Set
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
