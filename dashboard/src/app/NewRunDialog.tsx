import { useQueryClient } from "@tanstack/react-query";
import { useScripts } from "@/api/recipes";
import { useRecipes } from "@/api/runs";
import { NewRunForm } from "@/features/newRun/NewRunForm";
import { Button, Dialog } from "@/ui";
import { useGo } from "./navigation";

/** Starts a recipe, or a script of the server, as a process of its own, then shows it on Live. */
export default function NewRunDialog({ onClose }: { onClose: () => void }) {
  const { data, error } = useRecipes();
  const scripts = useScripts();
  const queries = useQueryClient();
  const go = useGo();
  const why = error?.message ?? data?.why_not ?? null;
  return (
    <Dialog
      title="New run"
      onClose={onClose}
      className="flex max-h-[calc(100vh-64px)] w-[520px] flex-col p-4"
    >
      {why !== null ? (
        <Refused why={why} onClose={onClose} />
      ) : data === undefined || scripts.isPending ? (
        <p className="mt-3 text-t3">Loading recipes…</p>
      ) : (
        <NewRunForm
          recipes={data.recipes}
          scripts={scripts.data?.scripts ?? []}
          onCancel={onClose}
          onStarted={(run) => {
            onClose();
            void queries.invalidateQueries({ queryKey: ["runs"] });
            go("/live", { run: run.id });
          }}
        />
      )}
    </Dialog>
  );
}

function Refused({ why, onClose }: { why: string; onClose: () => void }) {
  return (
    <>
      <p className="mt-3 text-t2">{why}</p>
      <div className="mt-3 flex justify-end">
        <Button data-autofocus onClick={onClose}>
          Close
        </Button>
      </div>
    </>
  );
}
