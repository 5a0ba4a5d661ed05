import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";
import { ApiError } from "@/api/client";
import { deleteRun, useRunFiles } from "@/api/runs";
import { formatBytes, plural } from "@/lib/format";
import { showToast } from "@/lib/toasts";
import { useRunDetail } from "@/live/hooks";
import { Button, Dialog, Field } from "@/ui";
import { useGo } from "./navigation";

/** Deletes what the run lists as its own, after its directory's name was typed. */
export default function DeleteDialog({ about, onClose }: { about: string; onClose: () => void }) {
  const { data: run } = useRunDetail(about);
  const { data: files } = useRunFiles(about, false);
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const queries = useQueryClient();
  const [location] = useLocation();
  const go = useGo();
  const directory = run?.directory.split("/").at(-1) ?? "";
  const own = files?.files.filter((file) => file.own).length ?? 0;
  const ready = directory !== "" && typed === directory;
  const remove = async () => {
    if (!ready || busy) return;
    setBusy(true);
    try {
      const { removed_bytes, removed_files, kept } = await deleteRun(about, typed);
      onClose();
      const left =
        kept.length > 0
          ? ` ${plural(kept.length, "other file")} ${kept.length === 1 ? "was" : "were"} kept.`
          : "";
      showToast({
        kind: "done",
        title: `Deleted ${directory}.`,
        text: `${plural(removed_files, "file")}, ${formatBytes(removed_bytes)}.${left}`,
      });
      void queries.invalidateQueries({ queryKey: ["runs"] });
      if (location.startsWith("/runs/")) go("/runs");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(error.message);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog title={`Delete ${run?.name ?? "the run"}?`} onClose={onClose} className="w-[400px] p-4">
      <p className="mt-1.5 text-t2">
        {files === undefined
          ? "Counting files…"
          : `Deletes ${plural(own, "file")} (${formatBytes(files.own_bytes)}). This cannot be undone.`}
        {files !== undefined && files.foreign > 0
          ? ` ${plural(files.foreign, "other file")} ${files.foreign === 1 ? "is" : "are"} kept.`
          : ""}
      </p>
      <form
        className="mt-3 flex flex-col gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          void remove();
        }}
      >
        <div className="flex flex-col gap-1 text-t2">
          <span>
            Type <code className="font-mono text-text select-all">{directory}</code> to confirm.
          </span>
          <Field
            label="Name of the run directory"
            value={typed}
            onChange={setTyped}
            className="w-full font-mono"
            error={problem}
            errorPosition="below"
          />
        </div>
        <div className="flex justify-end gap-2">
          <Button data-autofocus onClick={onClose}>
            Keep run
          </Button>
          <Button
            type="submit"
            look="danger-filled"
            busy={busy ? "Deleting…" : null}
            disabledReason={ready ? null : "Type the directory name first"}
          >
            Delete run
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
